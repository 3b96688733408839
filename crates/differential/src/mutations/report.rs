//! How far both servers agree, in figures and one by one.

use std::fmt::Write as _;
use std::path::Path;

use super::trial::Trial;

/// Figures of one kind.
pub struct Line {
    pub name: String,
    pub agree: usize,
    pub all: usize,
}

#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
    listing: String,
}

impl Report {
    pub fn add(&mut self, name: &str, trials: &[Trial]) {
        let agree = trials.iter().filter(|trial| trial.agrees()).count();
        self.lines.push(Line { name: name.to_owned(), agree, all: trials.len() });
        if agree == trials.len() {
            return;
        }
        let _ = writeln!(self.listing, "# {name}: {} of {}\n", trials.len() - agree, trials.len());
        for trial in trials.iter().filter(|trial| !trial.agrees()) {
            let Trial { deed, change, ours, theirs } = trial;
            let _ = writeln!(self.listing, "{deed}: {change}\n    real  {theirs}\n    atoll {ours}");
        }
        self.listing.push('\n');
    }

    pub fn agree(&self) -> usize {
        self.lines.iter().map(|line| line.agree).sum()
    }

    pub fn all(&self) -> usize {
        self.lines.iter().map(|line| line.all).sum()
    }

    /// Of a hundred.
    pub fn agreement(&self) -> f64 {
        percent(self.agree(), self.all())
    }

    /// Figures by kind, the worst first.
    pub fn figures(&self) -> String {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by(|one, other| {
            percent(one.agree, one.all)
                .total_cmp(&percent(other.agree, other.all))
                .then(one.name.cmp(&other.name))
        });
        let mut text = String::new();
        for Line { name, agree, all } in lines {
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
