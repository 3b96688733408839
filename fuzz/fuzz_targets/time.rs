//! A time that can be read is written as the same instant.
#![no_main]

use atoll_meta::time;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for parsed in [time::parse(text), time::parse_micro(text)] {
        match parsed {
            // Offsets can lead out of the years that have four digits.
            Ok(instant) if instant.to_time().len() == "2006-01-02T15:04:05Z".len() => {
                assert_eq!(time::parse(&instant.to_time()).map(|again| again.seconds), Ok(instant.seconds));
                assert_eq!(
                    time::parse_micro(&instant.to_micro_time()).map(|again| again.nanos),
                    Ok(instant.nanos / 1000 * 1000)
                );
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
