//! Sets of completion indexes in the form of the status: `1,3-5,7`.

// upstream: pkg/controller/job/indexed_job_utils.go

use std::fmt;

/// First and last index of each interval, sorted, neither adjacent nor overlapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Parses the indexes below `completions`. Skips invalid parts.
    pub fn parse(text: &str, completions: i64) -> Indexes {
        let mut found: Vec<(i64, i64)> = Vec::new();
        if text.is_empty() {
            return Indexes(found);
        }
        for stretch in text.split(',') {
            let mut limits = stretch.split('-');
            let Some(first) = limits.next().and_then(|first| first.parse::<i64>().ok()) else { continue };
            if first >= completions {
                break;
            }
            let last = match limits.next() {
                None => first,
                Some(last) => match last.parse::<i64>() {
                    Ok(last) => last.min(completions - 1),
                    Err(_) => continue,
                },
            };
            match found.last_mut() {
                Some(before) if before.1 == first - 1 => before.1 = last,
                _ => found.push((first, last)),
            }
        }
        Indexes(found)
    }

    pub fn of(indexes: impl IntoIterator<Item = i64>) -> Indexes {
        let mut sorted: Vec<i64> = indexes.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        Indexes(sorted.into_iter().map(|index| (index, index)).collect()).and(&Indexes::default())
    }

    /// Returns the union.
    pub fn and(&self, other: &Indexes) -> Indexes {
        let mut all: Vec<(i64, i64)> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match joined.last_mut() {
                Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Indexes(joined)
    }

    pub fn total(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, index: i64) -> bool {
        let place = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(place).is_some_and(|(first, _)| *first <= index)
    }

    /// Returns the size of the intersection.
    pub fn in_common(&self, other: &Indexes) -> i64 {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut total = 0;
        while let (Some((first, last)), Some((other_first, other_last))) = (own.peek(), others.peek()) {
            total += (last.min(other_last) - first.max(other_first) + 1).max(0);
            // The interval that ends first overlaps no later one.
            if last < other_last {
                own.next()
            } else {
                others.next()
            };
        }
        total
    }

    /// Returns the first `count` indexes below `limit` that are not in the set.
    pub fn first_missing(&self, count: usize, limit: i64) -> Vec<i64> {
        let (mut found, mut candidate) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(limit, limit)]) {
            found.extend((candidate..first.min(limit)).take(count - found.len()));
            candidate = candidate.max(last + 1);
        }
        found
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match last - first {
                0 => write!(out, "{comma}{first}")?,
                1 => write!(out, "{comma}{first},{last}")?,
                _ => write!(out, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints() {
        for (text, completions, expected, total) in [
            ("", 5, "", 0),
            ("0", 5, "0", 1),
            ("0-1", 5, "0,1", 2),
            ("0-2", 5, "0-2", 3),
            ("0,1,2,4", 6, "0-2,4", 4),
            ("0-6", 3, "0-2", 3),
            ("0,7", 3, "0", 1),
            ("nonsense,1", 3, "1", 1),
            ("0-x,2", 3, "2", 1),
        ] {
            let read = Indexes::parse(text, completions);
            assert_eq!((read.to_string().as_str(), read.total()), (expected, total), "{text}");
        }
    }

    #[test]
    fn unions_merge_intervals() {
        for (one, other, expected) in [
            ("", "", ""),
            ("1", "2", "1,2"),
            ("0-3", "2-5", "0-5"),
            ("0,4", "1-3", "0-4"),
            ("7-9", "0-2,5", "0-2,5,7-9"),
            ("0-9", "3", "0-9"),
        ] {
            let joined = Indexes::parse(one, 100).and(&Indexes::parse(other, 100));
            assert_eq!(joined.to_string(), expected, "{one} and {other}");
        }
        assert_eq!(Indexes::of([5, 1, 2, 1, 3]).to_string(), "1-3,5");
    }

    #[test]
    fn membership_and_missing_indexes() {
        let set = Indexes::parse("1,3-5,9", 10);
        let has: Vec<i64> = (-1..12).filter(|index| set.has(*index)).collect();
        assert_eq!(has, [1, 3, 4, 5, 9]);
        for (other, expected) in [("", 0), ("0-4,9", 4), ("0,2,6-8", 0), ("0-9", 5), ("5-9", 2), ("3,5", 2)] {
            let other = Indexes::parse(other, 10);
            assert_eq!((set.in_common(&other), other.in_common(&set)), (expected, expected), "{other}");
        }
        for (count, limit, expected) in [
            (0, 10, &[][..]),
            (2, 10, &[0, 2]),
            (4, 10, &[0, 2, 6, 7]),
            (99, 10, &[0, 2, 6, 7, 8]),
            (99, 3, &[0, 2]),
            (99, 12, &[0, 2, 6, 7, 8, 10, 11]),
        ] {
            assert_eq!(set.first_missing(count, limit), expected, "{count} below {limit}");
        }
    }
}
