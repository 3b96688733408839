//! StatefulSets divided into contiguous segments of ordinals.
//!
//! A segment begins where the one before it ends, and stays where it began: only the last segment that is not
//! empty grows or shrinks, up to the beginning of the next. An empty segment keeps its place, so that its
//! volumes are found again when it is its turn.

/// The segment of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Number of Pods of the StatefulSet that precede the first one of the segment.
    pub first: i64,
    pub replicas: i64,
    /// Most replicas that its cluster takes.
    pub most: i64,
}

/// Returns where each segment of these sizes begins.
pub fn firsts(sizes: impl IntoIterator<Item = i64>) -> Vec<i64> {
    let begin = |end: &mut i64, size: i64| {
        let first = *end;
        *end += size;
        Some(first)
    };
    sizes.into_iter().scan(0, begin).collect()
}

/// Returns the replicas of segments, sorted by their beginning, for a new total. A segment that cannot grow as
/// far as the next one begins keeps later ones from growing: ordinals have no gaps.
pub fn resize(segments: &[Segment], total: i64) -> Vec<i64> {
    let mut is_full = true;
    let mut sizes = Vec::with_capacity(segments.len());
    for (at, segment) in segments.iter().enumerate() {
        let end = segments.get(at + 1).map_or(i64::MAX, |next| next.first);
        let wanted = (total - segment.first).clamp(0, end - segment.first);
        let grown = if is_full { segment.most.max(segment.replicas) } else { segment.replicas };
        let size = wanted.min(grown);
        is_full = is_full && size == end - segment.first;
        sizes.push(size);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segments(rows: &[(i64, i64, i64)]) -> Vec<Segment> {
        rows.iter()
            .map(|(first, replicas, most)| Segment { first: *first, replicas: *replicas, most: *most })
            .collect()
    }

    #[test]
    fn only_the_last_segment_resizes() {
        for (rows, total, expected) in [
            (&[(0, 2, 9), (2, 1, 9)][..], 5, &[2, 3][..]),
            (&[(0, 2, 9), (2, 3, 9)], 1, &[1, 0]),
            (&[(0, 1, 9), (2, 0, 9)], 3, &[2, 1]),
            (&[(0, 2, 9), (2, 1, 4)], 9, &[2, 4]),
            // A gap would be worse than fewer replicas.
            (&[(0, 1, 1), (2, 0, 9)], 5, &[1, 0]),
            (&[(0, 2, 9), (2, 3, 1)], 5, &[2, 3]),
            (&[(0, 2, 9), (2, 3, 9)], 0, &[0, 0]),
        ] {
            assert_eq!(resize(&segments(rows), total), expected, "{rows:?} {total}");
        }
        assert_eq!(firsts([2, 0, 3]), [0, 2, 2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ordinals_have_no_gaps(sizes in proptest::collection::vec((1..4i64, 0..9i64), 1..5), totals in proptest::collection::vec(0..15i64, 1..8)) {
            let firsts = firsts(sizes.iter().map(|(size, _)| *size));
            let mut now: Vec<Segment> = firsts
                .iter()
                .zip(&sizes)
                .map(|(first, (size, more))| Segment { first: *first, replicas: *size, most: size + more })
                .collect();
            for total in totals {
                let before = now.clone();
                for (segment, size) in now.iter_mut().zip(resize(&before, total)) {
                    segment.replicas = size;
                }
                let placed: i64 = now.iter().map(|segment| segment.replicas).sum();
                prop_assert!(placed <= total);
                let changed = before.iter().zip(&now).filter(|(before, now)| before.replicas != now.replicas);
                // Between the segments that change, all others are full or empty.
                for (before, now) in changed {
                    prop_assert_eq!(before.first, now.first);
                }
                let mut end = 0;
                for segment in now.iter().filter(|segment| segment.replicas > 0) {
                    prop_assert_eq!(segment.first, end);
                    end += segment.replicas;
                }
                // All are placed unless the last one is at its limit.
                let last = now.last().copied().unwrap_or(Segment { first: 0, replicas: 0, most: 0 });
                prop_assert!(placed == total || last.replicas >= last.most, "{:?}", now);
            }
        }
    }
}
