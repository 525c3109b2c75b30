//! The formats of strings that are checked. Each reads its text once.

mod email;
mod uri;

use std::net::{Ipv4Addr, Ipv6Addr};

use chrono::NaiveDate;

use super::pattern::is_pattern;

/// A format by its name in schemas, and the check of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) fits: fn(&str) -> bool,
}

/// The formats that OpenAPI 3.0 and 3.1 share.
const COMMON: [Format; 9] = [
    Format { name: "date", fits: is_date },
    Format { name: "date-time", fits: is_date_time },
    Format { name: "email", fits: email::is_email },
    Format { name: "hostname", fits: is_hostname },
    Format { name: "ipv4", fits: |text| text.parse::<Ipv4Addr>().is_ok() },
    Format { name: "ipv6", fits: |text| text.parse::<Ipv6Addr>().is_ok() },
    Format { name: "regex", fits: is_pattern },
    Format { name: "time", fits: is_time },
    Format { name: "uri", fits: |text| uri::is_uri(text, uri::Characters::Ascii) },
];

/// The formats that OpenAPI 3.1 adds, where they come from JSON Schema 2020-12.
const NEWER: [Format; 8] = [
    Format { name: "duration", fits: is_duration },
    Format { name: "iri", fits: |text| uri::is_uri(text, uri::Characters::Unicode) },
    Format { name: "iri-reference", fits: |text| uri::is_reference(text, uri::Characters::Unicode) },
    Format { name: "json-pointer", fits: is_json_pointer },
    Format { name: "relative-json-pointer", fits: is_relative_json_pointer },
    Format { name: "uri-reference", fits: |text| uri::is_reference(text, uri::Characters::Ascii) },
    Format { name: "uri-template", fits: uri::is_template },
    Format { name: "uuid", fits: is_uuid },
];

/// The format with this name. Others are annotations.
pub(super) fn find(name: &str, openapi_3_0: bool) -> Option<Format> {
    let newer: &[Format] = if openapi_3_0 { &[] } else { &NEWER };
    COMMON.iter().chain(newer).find(|format| format.name == name).copied()
}

/// A number of exactly so many digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut part = |count| digits(parts.next()?, count);
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else { return false };
    i32::try_from(year).is_ok_and(|year| NaiveDate::from_ymd_opt(year, month, day).is_some())
}

fn is_date_time(text: &str) -> bool {
    text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// RFC 3339 `full-time`. A leap second is the last of a day in UTC.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let Some((hour, minute, second)) = clock_time(clock) else { return false };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (sign, ahead) = zone.split_at_checked(1).unwrap_or_default();
            let Some((hours, minutes)) = ahead.split_once(':') else { return false };
            let (Some(hours), Some(minutes)) = (digits(hours, 2), digits(minutes, 2)) else { return false };
            if hours > 23 || minutes > 59 {
                return false;
            }
            let minutes = i64::from(hours * 60 + minutes);
            match sign {
                "+" => minutes,
                "-" => -minutes,
                _ => return false,
            }
        }
    };
    let minute_of_day = (i64::from(hour * 60 + minute) - offset).rem_euclid(24 * 60);
    second < 60 || minute_of_day == 24 * 60 - 1
}

fn clock_time(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.splitn(3, ':');
    let mut part = |most: u32| digits(parts.next()?, 2).filter(|number| *number <= most);
    Some((part(23)?, part(59)?, part(60)?))
}

/// RFC 3339 `duration`: units from large to small without a gap, or weeks alone.
fn is_duration(text: &str) -> bool {
    let Some(text) = text.strip_prefix('P') else { return false };
    if text.strip_suffix('W').is_some_and(is_number) {
        return true;
    }
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let time_fits = time.is_none_or(|time| !time.is_empty() && units(time, "HMS"));
    (!date.is_empty() || time.is_some()) && units(date, "YMD") && time_fits
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Numbers with these units in their order; between the first and the last of them none is left out.
fn units(text: &str, all: &str) -> bool {
    let mut next = None;
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let Some(unit) = part.chars().next_back() else { return false };
        let Some(at) = all.find(unit) else { return false };
        if !is_number(&part[..part.len() - unit.len_utf8()]) || next.is_some_and(|next| next != at) {
            return false;
        }
        next = Some(at + 1);
    }
    true
}

/// RFC 1123.
fn is_hostname(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
            let bytes = label.as_bytes();
            bytes.len() <= 63
                && edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
        })
}

fn is_json_pointer(text: &str) -> bool {
    let escapes_fit = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes_fit
}

fn is_relative_json_pointer(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    is_number(number) && (number == "0" || !number.starts_with('0')) && (rest == "#" || is_json_pointer(rest))
}

fn is_uuid(text: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    text.split('-')
        .map(|group| group.bytes().all(|b| b.is_ascii_hexdigit()).then_some(group.len()))
        .eq(groups.map(Some))
}
