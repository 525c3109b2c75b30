//! `email`: a mailbox of RFC 5321.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::is_hostname;

/// The longest part before the `@`.
const MAX_LOCAL: usize = 64;

pub(super) fn is_email(text: &str) -> bool {
    // A name may stand before the mailbox: `Joe <joe@example.com>`.
    let named = text.rsplit_once(" <").map(|(_, mailbox)| mailbox.trim().strip_suffix('>'));
    let Some(text) = named.unwrap_or(Some(text)) else { return false };
    // The local part may hold an `@` in quotes; the domain holds none.
    text.rsplit_once('@').is_some_and(|(local, domain)| is_local(local) && is_domain(domain))
}

fn is_local(text: &str) -> bool {
    let atom = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
    };
    let quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let fits = if quoted { is_quoted(&text[1..text.len() - 1]) } else { text.split('.').all(atom) };
    text.len() <= MAX_LOCAL && fits
}

/// Printable characters, of which `"` and `\` follow a `\`.
fn is_quoted(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        let fits = match b {
            b'\\' => bytes.next().is_some_and(|b| matches!(b, b' '..=b'~')),
            b'"' => false,
            b' '..=b'~' => true,
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    true
}

fn is_domain(text: &str) -> bool {
    let Some(address) = text.strip_prefix('[') else { return is_hostname(text) };
    let Some(address) = address.strip_suffix(']') else { return false };
    match address.split_at_checked(5) {
        Some((tag, address)) if tag.eq_ignore_ascii_case("IPv6:") => address.parse::<Ipv6Addr>().is_ok(),
        _ => address.parse::<Ipv4Addr>().is_ok(),
    }
}
