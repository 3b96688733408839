//! Unified diffs with three lines of context, computed like Python's difflib and its Go port.

// upstream: github.com/pmezard/go-difflib/difflib/difflib.go

use std::collections::HashMap;

const CONTEXT: usize = 3;
/// From this number of lines on, frequent lines do not start a match (difflib's autojunk).
const JUNK_THRESHOLD: usize = 200;

/// A range of lines in both texts: start and end in the first, then in the second.
#[derive(Clone, Copy)]
struct LineRange {
    is_equal: bool,
    first: (usize, usize),
    second: (usize, usize),
}

struct Matcher<'a> {
    first: Vec<&'a str>,
    second: Vec<&'a str>,
    /// Line numbers of each line in the second text.
    line_numbers: HashMap<&'a str, Vec<usize>>,
}

/// Returns the unified diff from the first text to the second.
pub(crate) fn difference(first: &str, second: &str) -> String {
    let matcher = Matcher::new(first, second);
    let mut out = String::new();
    for group in groups(matcher.line_ranges()) {
        let (Some(begin), Some(end)) = (group.first(), group.last()) else { continue };
        out.push_str(&format!(
            "@@ -{} +{} @@\n",
            range(begin.first.0, end.first.1),
            range(begin.second.0, end.second.1)
        ));
        for range in &group {
            let mut write = |sign: char, lines: &[&str]| {
                for line in lines {
                    out.push(sign);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            let before = &matcher.first[range.first.0..range.first.1];
            if range.is_equal {
                write(' ', before);
            } else {
                write('-', before);
                write('+', &matcher.second[range.second.0..range.second.1]);
            }
        }
    }
    out
}

fn range(from: usize, to: usize) -> String {
    match to - from {
        0 => format!("{from},0"),
        1 => format!("{}", from + 1),
        length => format!("{},{length}", from + 1),
    }
}

impl<'a> Matcher<'a> {
    fn new(first: &'a str, second: &'a str) -> Matcher<'a> {
        let first: Vec<&str> = first.split('\n').collect();
        let second: Vec<&str> = second.split('\n').collect();
        let mut line_numbers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, line) in second.iter().enumerate() {
            line_numbers.entry(line).or_default().push(index);
        }
        if second.len() >= JUNK_THRESHOLD {
            let limit = second.len() / 100 + 1;
            line_numbers.retain(|_, line_numbers| line_numbers.len() <= limit);
        }
        Matcher { first, second, line_numbers }
    }

    /// Returns the longest matching block within these bounds: its position in both texts and its length.
    fn longest(&self, first: (usize, usize), second: (usize, usize)) -> (usize, usize, usize) {
        let (mut at, mut other, mut size) = (first.0, second.0, 0);
        let mut lengths: HashMap<usize, usize> = HashMap::new();
        for index in first.0..first.1 {
            let mut next = HashMap::new();
            for &line in self.line_numbers.get(self.first[index]).into_iter().flatten() {
                if line < second.0 {
                    continue;
                }
                if line >= second.1 {
                    break;
                }
                let length = line.checked_sub(1).and_then(|before| lengths.get(&before)).unwrap_or(&0) + 1;
                next.insert(line, length);
                if length > size {
                    (at, other, size) = (index + 1 - length, line + 1 - length, length);
                }
            }
            lengths = next;
        }
        while at > first.0 && other > second.0 && self.first[at - 1] == self.second[other - 1] {
            (at, other, size) = (at - 1, other - 1, size + 1);
        }
        while at + size < first.1
            && other + size < second.1
            && self.first[at + size] == self.second[other + size]
        {
            size += 1;
        }
        (at, other, size)
    }

    fn collect(&self, first: (usize, usize), second: (usize, usize), found: &mut Vec<(usize, usize, usize)>) {
        let (at, other, size) = self.longest(first, second);
        if size == 0 {
            return;
        }
        if first.0 < at && second.0 < other {
            self.collect((first.0, at), (second.0, other), found);
        }
        found.push((at, other, size));
        if at + size < first.1 && other + size < second.1 {
            self.collect((at + size, first.1), (other + size, second.1), found);
        }
    }

    /// Returns the ranges that cover both texts.
    fn line_ranges(&self) -> Vec<LineRange> {
        let mut found = Vec::new();
        self.collect((0, self.first.len()), (0, self.second.len()), &mut found);
        found.push((self.first.len(), self.second.len(), 0));
        let mut line_ranges: Vec<LineRange> = Vec::new();
        let (mut at, mut other) = (0, 0);
        for (first, second, size) in found {
            if at < first || other < second {
                line_ranges.push(LineRange { is_equal: false, first: (at, first), second: (other, second) });
            }
            (at, other) = (first + size, second + size);
            if size == 0 {
                continue;
            }
            match line_ranges.last_mut() {
                // Merge adjacent matching blocks.
                Some(last) if last.is_equal && last.first.1 == first && last.second.1 == second => {
                    (last.first.1, last.second.1) = (at, other);
                }
                _ => line_ranges.push(LineRange {
                    is_equal: true,
                    first: (first, at),
                    second: (second, other),
                }),
            }
        }
        line_ranges
    }
}

/// Groups changes with their context. Changes close to each other share a group.
fn groups(mut line_ranges: Vec<LineRange>) -> Vec<Vec<LineRange>> {
    if let Some(first) = line_ranges.first_mut().filter(|range| range.is_equal) {
        first.first.0 = first.first.0.max(first.first.1.saturating_sub(CONTEXT));
        first.second.0 = first.second.0.max(first.second.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = line_ranges.last_mut().filter(|range| range.is_equal) {
        last.first.1 = last.first.1.min(last.first.0 + CONTEXT);
        last.second.1 = last.second.1.min(last.second.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut range in line_ranges {
        if range.is_equal && range.first.1 - range.first.0 > 2 * CONTEXT {
            let mut end = range;
            end.first.1 = end.first.1.min(end.first.0 + CONTEXT);
            end.second.1 = end.second.1.min(end.second.0 + CONTEXT);
            group.push(end);
            groups.push(std::mem::take(&mut group));
            range.first.0 = range.first.0.max(range.first.1.saturating_sub(CONTEXT));
            range.second.0 = range.second.0.max(range.second.1.saturating_sub(CONTEXT));
        }
        group.push(range);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|range| !range.is_equal));
    groups
}

#[cfg(test)]
mod tests {
    use super::difference;

    fn lines(text: &str) -> String {
        text.replace(' ', "\n")
    }

    #[test]
    fn changes_have_context() {
        let cases = [
            ("a b c", "a b c", ""),
            ("a b c", "a x c", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"),
            ("1 2 3 4 5 6", "1 2 3 4 5", "@@ -3,4 +3,3 @@\n 3\n 4\n 5\n-6\n"),
            ("a", "a a", "@@ -1 +1,2 @@\n a\n+a\n"),
            (
                "x 1 2 3 4 5 6 7 y",
                "X 1 2 3 4 5 6 7 Y",
                "@@ -1,4 +1,4 @@\n-x\n+X\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-y\n+Y\n",
            ),
        ];
        for (old, new, expected) in cases {
            assert_eq!(difference(&lines(old), &lines(new)), expected, "{old} to {new}");
        }
    }

    #[test]
    fn frequent_lines_of_long_texts_only_extend_matches() {
        let text =
            |from: u32| (0..120).map(|index| format!("{} -", from + index)).collect::<Vec<_>>().join(" ");
        let rendered = difference(&lines(&text(0)), &lines(&text(1)));
        assert_eq!(
            rendered,
            "@@ -1,5 +1,3 @@\n-0\n--\n 1\n -\n 2\n@@ -238,3 +236,5 @@\n -\n 119\n -\n+120\n+-\n"
        );
    }
}
