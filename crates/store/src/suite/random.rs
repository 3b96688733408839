//! Deterministic pseudorandom numbers.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// The seeds to run: the one in `ATOLL_SEED` if it is set, otherwise `count` new ones. They are printed, and
/// the test harness shows the output of a failed test.
pub fn seeds(count: usize) -> Vec<u64> {
    let seeds = match std::env::var("ATOLL_SEED") {
        Ok(text) => vec![text.parse().expect("ATOLL_SEED is a number")],
        Err(_) => {
            let mut fresh = Random::new(std::hash::BuildHasher::hash_one(
                &std::collections::hash_map::RandomState::new(),
                std::process::id(),
            ));
            (0..count).map(|_| fresh.number()).collect()
        }
    };
    println!("seeds: {seeds:?}; set ATOLL_SEED to one of them to run it alone");
    seeds
}
