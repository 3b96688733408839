//! What has changed between two texts, as `diff -u` tells it and upstream's messages do.

use std::collections::HashMap;
use std::ops::Range;

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// A stretch of the old lines and what stands there in the new ones.
#[derive(Clone, Debug)]
struct Stretch {
    same: bool,
    old: Range<usize>,
    new: Range<usize>,
}

pub(crate) fn unified(old: &[String], new: &[String]) -> String {
    let mut out = String::new();
    for group in groups(stretches(old, new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let before = place(&(first.old.start..last.old.end));
        let after = place(&(first.new.start..last.new.end));
        out.push_str(&format!("@@ -{before} +{after} @@\n"));
        for stretch in &group {
            let mut show = |sign: char, lines: &[String]| {
                for line in lines {
                    out.push(sign);
                    out.push_str(line);
                    out.push('\n');
                }
            };
            if stretch.same {
                show(' ', &old[stretch.old.clone()]);
            } else {
                show('-', &old[stretch.old.clone()]);
                show('+', &new[stretch.new.clone()]);
            }
        }
    }
    out
}

/// Lines count from one; a stretch without lines is said to be at the line before it.
fn place(range: &Range<usize>) -> String {
    match range.len() {
        1 => (range.start + 1).to_string(),
        0 => format!("{},0", range.start),
        length => format!("{},{length}", range.start + 1),
    }
}

/// Changes that are close together, with what surrounds them.
fn groups(mut all: Vec<Stretch>) -> Vec<Vec<Stretch>> {
    if let Some(first) = all.first_mut().filter(|stretch| stretch.same) {
        first.old.start = first.old.start.max(first.old.end.saturating_sub(CONTEXT));
        first.new.start = first.new.start.max(first.new.end.saturating_sub(CONTEXT));
    }
    if let Some(last) = all.last_mut().filter(|stretch| stretch.same) {
        last.old.end = last.old.end.min(last.old.start + CONTEXT);
        last.new.end = last.new.end.min(last.new.start + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Stretch> = Vec::new();
    for mut stretch in all {
        if stretch.same && stretch.old.len() > 2 * CONTEXT {
            let (old, new) = (stretch.old.clone(), stretch.new.clone());
            let head = Stretch {
                same: true,
                old: old.start..old.start + CONTEXT,
                new: new.start..new.start + CONTEXT,
            };
            group.push(head);
            groups.push(std::mem::take(&mut group));
            stretch.old.start = old.end - CONTEXT;
            stretch.new.start = new.end - CONTEXT;
        }
        group.push(stretch);
    }
    groups.push(group);
    groups.retain(|group| group.iter().any(|stretch| !stretch.same));
    groups
}

/// The whole of both texts as stretches that are the same and stretches that are not.
fn stretches(old: &[String], new: &[String]) -> Vec<Stretch> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    let mut matches = Vec::new();
    let mut waiting = vec![(0..old.len(), 0..new.len())];
    while let Some((left, right)) = waiting.pop() {
        let (start, at, size) = longest(old, &places, &left, &right);
        if size > 0 {
            waiting.push((left.start..start, right.start..at));
            waiting.push((start + size..left.end, at + size..right.end));
            matches.push((start, at, size));
        }
    }
    matches.sort_unstable();
    let mut all: Vec<Stretch> = Vec::new();
    let (mut row, mut column) = (0, 0);
    for (start, at, size) in matches.into_iter().chain([(old.len(), new.len(), 0)]) {
        if row < start || column < at {
            all.push(Stretch { same: false, old: row..start, new: column..at });
        }
        match all.last_mut().filter(|last| last.same && size > 0) {
            Some(last) => {
                last.old.end = start + size;
                last.new.end = at + size;
            }
            None if size > 0 => {
                all.push(Stretch { same: true, old: start..start + size, new: at..at + size })
            }
            None => {}
        }
        (row, column) = (start + size, at + size);
    }
    all
}

/// The longest run of equal lines, the earliest one if there are several: where in each, and how long.
fn longest(
    old: &[String],
    places: &HashMap<&str, Vec<usize>>,
    left: &Range<usize>,
    right: &Range<usize>,
) -> (usize, usize, usize) {
    let mut best = (left.start, right.start, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for row in left.clone() {
        let mut next = HashMap::new();
        for &column in
            places.get(old[row].as_str()).into_iter().flatten().filter(|column| right.contains(column))
        {
            let length =
                column.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or(0) + 1;
            next.insert(column, length);
            if length > best.2 {
                best = (row + 1 - length, column + 1 - length, length);
            }
        }
        lengths = next;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::unified;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn changes_are_shown_with_what_surrounds_them() {
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
            assert_eq!(unified(&lines(old), &lines(new)), expected, "{old} to {new}");
        }
    }
}
