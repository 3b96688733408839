//! Components of timestamps and durations.

// upstream: github.com/google/cel-go/common/types/timestamp.go
// upstream: github.com/google/cel-go/common/types/duration.go

use crate::error::Error;
use crate::library::Overload;
use crate::time::{Parts, SECOND};
use crate::value::Value;

/// Declares a component of a timestamp, in UTC or in a zone, and optionally of a duration.
macro_rules! part {
    ($name:ident, $call:ident, $id:literal, $zoned:literal, $part:expr $(, $span:literal, $length:expr)?) => {
        pub static $name: &[Overload] = &[
            Overload::new($id, "timestamp.() -> int", $call),
            Overload::new($zoned, "timestamp.(string) -> int", $call),
            $(Overload::new($span, "duration.() -> int", $call),)?
        ];

        fn $call<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
            match arguments {
                [Value::Timestamp(at)] => Ok(Value::Int($part(Parts::of(*at, 0), at.nanos))),
                [Value::Timestamp(at), Value::String(zone)] => {
                    Ok(Value::Int($part(Parts::of(*at, offset(zone, at.seconds)?), at.nanos)))
                }
                $([Value::Duration(nanos)] => Ok(Value::Int($length(*nanos))),)?
                _ => Err(Error::NoSuchOverload),
            }
        }
    };
}

part!(YEAR, year, "timestamp_to_year", "timestamp_to_year_with_tz", |parts: Parts, _: u32| parts.year);
part!(MONTH, month, "timestamp_to_month", "timestamp_to_month_with_tz", |parts: Parts, _: u32| parts.month
    - 1);
part!(
    DAY_OF_YEAR,
    day_of_year,
    "timestamp_to_day_of_year",
    "timestamp_to_day_of_year_with_tz",
    |parts: Parts, _: u32| parts.day_of_year
);
part!(
    DAY_OF_MONTH,
    day_of_month,
    "timestamp_to_day_of_month",
    "timestamp_to_day_of_month_with_tz",
    |parts: Parts, _: u32| parts.day - 1
);
part!(
    DATE,
    date,
    "timestamp_to_day_of_month_1_based",
    "timestamp_to_day_of_month_1_based_with_tz",
    |parts: Parts, _: u32| parts.day
);
part!(
    DAY_OF_WEEK,
    day_of_week,
    "timestamp_to_day_of_week",
    "timestamp_to_day_of_week_with_tz",
    |parts: Parts, _: u32| parts.day_of_week
);
part!(
    HOURS,
    hours,
    "timestamp_to_hours",
    "timestamp_to_hours_with_tz",
    |parts: Parts, _: u32| parts.hour,
    "duration_to_hours",
    |nanos: i64| nanos / (3600 * SECOND)
);
part!(
    MINUTES,
    minutes,
    "timestamp_to_minutes",
    "timestamp_to_minutes_with_tz",
    |parts: Parts, _: u32| parts.minute,
    "duration_to_minutes",
    |nanos: i64| nanos / (60 * SECOND)
);
part!(
    SECONDS,
    seconds,
    "timestamp_to_seconds",
    "timestamp_to_seconds_tz",
    |parts: Parts, _: u32| parts.second,
    "duration_to_seconds",
    |nanos: i64| nanos / SECOND
);
part!(
    MILLISECONDS,
    milliseconds,
    "timestamp_to_milliseconds",
    "timestamp_to_milliseconds_with_tz",
    |_: Parts, nanos: u32| i64::from(nanos / 1_000_000),
    "duration_to_milliseconds",
    |nanos: i64| nanos / 1_000_000
);

/// Returns the offset from UTC in seconds: of a named zone at a time, or a fixed offset.
fn offset(zone: &str, time: i64) -> Result<i64, Error> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        if zone.starts_with(['/', '\\']) || zone.contains("..") {
            return Err(Error::new("time: invalid location name".to_owned()));
        }
        let found = atoll_zones::named(zone).map(|zone| zone.offset(time));
        return found.ok_or_else(|| Error::new(format!("unknown time zone {zone}")));
    };
    let number = |text: &str| {
        let syntax = || Error::new(format!("strconv.Atoi: parsing \"{text}\": invalid syntax"));
        text.parse::<i32>().map(i64::from).map_err(|_| syntax())
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    Ok(60 * if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes })
}
