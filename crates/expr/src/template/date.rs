//! Times by Go's layouts, which are the time `Mon Jan 2 15:04:05 MST 2006` written as it is wanted. Times are in UTC.

use std::fmt::Write;

use chrono::{DateTime, Datelike, Timelike, Utc};

/// The parts of a layout that are digits or signs, the longer before those that start like them.
const PARTS: [(&str, Part); 33] = [
    ("2006", Part::Year),
    ("__2", Part::DayOfYear('_')),
    ("_2006", Part::UnderscoreYear),
    ("_2", Part::DayPadded),
    ("002", Part::DayOfYear('0')),
    ("01", Part::Month),
    ("02", Part::Day),
    ("03", Part::Hour12),
    ("04", Part::Minute),
    ("05", Part::Second),
    ("06", Part::ShortYear),
    ("15", Part::Hour),
    ("1", Part::BareMonth),
    ("2", Part::BareDay),
    ("3", Part::BareHour12),
    ("4", Part::BareMinute),
    ("5", Part::BareSecond),
    ("PM", Part::Text(["AM", "PM"])),
    ("pm", Part::Text(["am", "pm"])),
    ("MST", Part::Zone("UTC")),
    ("-07:00:00", Part::Zone("+00:00:00")),
    ("-070000", Part::Zone("+000000")),
    ("-07:00", Part::Zone("+00:00")),
    ("-0700", Part::Zone("+0000")),
    ("-07", Part::Zone("+00")),
    ("Z07:00:00", Part::Zone("Z")),
    ("Z070000", Part::Zone("Z")),
    ("Z07:00", Part::Zone("Z")),
    ("Z0700", Part::Zone("Z")),
    ("Z07", Part::Zone("Z")),
    ("January", Part::MonthName),
    ("Monday", Part::DayName),
    ("Jan", Part::ShortMonthName),
];

#[derive(Clone, Copy)]
enum Part {
    Year,
    UnderscoreYear,
    ShortYear,
    Month,
    BareMonth,
    MonthName,
    ShortMonthName,
    Day,
    DayPadded,
    BareDay,
    DayOfYear(char),
    DayName,
    ShortDayName,
    Hour,
    Hour12,
    BareHour12,
    Minute,
    BareMinute,
    Second,
    BareSecond,
    /// For the morning and for the afternoon.
    Text([&'static str; 2]),
    Zone(&'static str),
}

/// A time in microseconds since 1970 by a layout; nothing for one beyond the years of a calendar.
pub(super) fn format(layout: &str, micros: i64) -> String {
    let Some(time) = DateTime::from_timestamp_micros(micros) else { return String::new() };
    let mut text = String::new();
    let mut rest = layout;
    while let Some(first) = rest.chars().next() {
        if let Some((length, digits)) = fraction(rest) {
            text.push_str(&digits(&time, first));
            rest = &rest[length..];
        } else if let Some((length, part)) = part(rest) {
            write(&mut text, part, &time);
            rest = &rest[length..];
        } else {
            text.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    text
}

fn part(rest: &str) -> Option<(usize, Part)> {
    let found = PARTS.iter().find(|(name, _)| rest.starts_with(name)).map(|(name, part)| (name.len(), *part));
    let found = found.or_else(|| rest.starts_with("Mon").then_some((3, Part::ShortDayName)));
    // `Month` and `Jansky` are words.
    found.filter(|(length, part)| {
        !matches!(part, Part::ShortDayName | Part::ShortMonthName)
            || !rest[*length..].starts_with(|c: char| c.is_ascii_lowercase())
    })
}

/// `.000` and `,000` are so many digits of a second, `.999` at most so many.
#[allow(clippy::type_complexity, reason = "a length and what to write")]
fn fraction(rest: &str) -> Option<(usize, impl Fn(&DateTime<Utc>, char) -> String)> {
    let after = rest.strip_prefix(['.', ','])?;
    let digit = after.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let count = after.len() - after.trim_start_matches(digit).len();
    if after[count..].starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = move |time: &DateTime<Utc>, point: char| {
        let nanos = format!("{:09}", time.timestamp_subsec_nanos());
        let mut kept: String = nanos.chars().chain(std::iter::repeat('0')).take(count).collect();
        if digit == '9' {
            kept.truncate(kept.trim_end_matches('0').len());
        }
        if kept.is_empty() { kept } else { format!("{point}{kept}") }
    };
    Some((1 + count, digits))
}

fn write(text: &mut String, part: Part, time: &DateTime<Utc>) {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let month = MONTHS[time.month0() as usize % MONTHS.len()];
    let weekday = DAYS[time.weekday().num_days_from_sunday() as usize % DAYS.len()];
    let hour12 = time.hour12().1;
    _ = match part {
        Part::Year => write!(text, "{:04}", time.year()),
        Part::UnderscoreYear => write!(text, "_{:04}", time.year()),
        Part::ShortYear => write!(text, "{:02}", time.year().rem_euclid(100)),
        Part::Month => write!(text, "{:02}", time.month()),
        Part::BareMonth => write!(text, "{}", time.month()),
        Part::MonthName => write!(text, "{month}"),
        Part::ShortMonthName => write!(text, "{}", &month[..3]),
        Part::Day => write!(text, "{:02}", time.day()),
        Part::DayPadded => write!(text, "{:2}", time.day()),
        Part::BareDay => write!(text, "{}", time.day()),
        Part::DayOfYear('0') => write!(text, "{:03}", time.ordinal()),
        Part::DayOfYear(_) => write!(text, "{:3}", time.ordinal()),
        Part::DayName => write!(text, "{weekday}"),
        Part::ShortDayName => write!(text, "{}", &weekday[..3]),
        Part::Hour => write!(text, "{:02}", time.hour()),
        Part::Hour12 => write!(text, "{hour12:02}"),
        Part::BareHour12 => write!(text, "{hour12}"),
        Part::Minute => write!(text, "{:02}", time.minute()),
        Part::BareMinute => write!(text, "{}", time.minute()),
        Part::Second => write!(text, "{:02}", time.second()),
        Part::BareSecond => write!(text, "{}", time.second()),
        Part::Text([morning, afternoon]) => {
            write!(text, "{}", if time.hour() < 12 { morning } else { afternoon })
        }
        Part::Zone(zone) => write!(text, "{zone}"),
    };
}
