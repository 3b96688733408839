//! Counts and lists agreements and disagreements of the two servers.

use std::fmt::Write as _;
use std::path::Path;

use super::trial::Trial;

/// Counts of one kind.
pub struct KindAgreement {
    pub name: String,
    pub agree: usize,
    pub all: usize,
}

#[derive(Default)]
pub struct MutationReport {
    pub lines: Vec<KindAgreement>,
    listing: String,
}

impl MutationReport {
    pub fn add(&mut self, name: &str, trials: &[Trial]) {
        let agree = trials.iter().filter(|trial| trial.agrees()).count();
        self.lines.push(KindAgreement { name: name.to_owned(), agree, all: trials.len() });
        if agree == trials.len() {
            return;
        }
        let _ = writeln!(self.listing, "# {name}: {} of {}\n", trials.len() - agree, trials.len());
        for trial in trials.iter().filter(|trial| !trial.agrees()) {
            let Trial { operation, change, atoll, upstream } = trial;
            let _ = writeln!(
                self.listing,
                "{operation}: {change}\n    upstream {upstream}\n    atoll    {atoll}"
            );
        }
        self.listing.push('\n');
    }

    pub fn agree(&self) -> usize {
        self.lines.iter().map(|line| line.agree).sum()
    }

    pub fn all(&self) -> usize {
        self.lines.iter().map(|line| line.all).sum()
    }

    /// Returns the share of agreements in percent.
    pub fn agreement(&self) -> f64 {
        percent(self.agree(), self.all())
    }

    /// Formats the counts by kind, worst first.
    pub fn figures(&self) -> String {
        let mut lines: Vec<&KindAgreement> = self.lines.iter().collect();
        lines.sort_by(|one, other| {
            percent(one.agree, one.all)
                .total_cmp(&percent(other.agree, other.all))
                .then(one.name.cmp(&other.name))
        });
        let mut text = String::new();
        for KindAgreement { name, agree, all } in lines {
            let _ = writeln!(text, "{:6.1}%  {agree:5} of {all:5}  {name}", percent(*agree, *all));
        }
        let _ = writeln!(text, "{:6.1}%  {:5} of {:5}  overall", self.agreement(), self.agree(), self.all());
        text
    }

    /// Writes `figures.txt` and `disagreements.txt`.
    pub fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("figures.txt"), self.figures())?;
        std::fs::write(directory.join("disagreements.txt"), &self.listing)
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 100.0 } else { 100.0 * part as f64 / whole as f64 }
}
