//! `uri` and its relatives: RFC 3986 in ASCII, RFC 3987 in Unicode, and the templates of RFC 6570.

use std::net::Ipv6Addr;

/// Which characters a reference may have as they are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Characters {
    Ascii,
    Unicode,
}

pub(super) fn is_uri(text: &str, characters: Characters) -> bool {
    scheme(text).is_some_and(|rest| is_rest(rest, characters))
}

pub(super) fn is_reference(text: &str, characters: Characters) -> bool {
    if let Some(rest) = scheme(text) {
        return is_rest(rest, characters);
    }
    // A colon in the first segment would end a scheme.
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    !first.contains(':') && is_rest(text, characters)
}

/// What follows the scheme.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let fits = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && fits).then_some(rest)
}

/// Authority, path, query and fragment.
fn is_rest(text: &str, characters: Characters) -> bool {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let (authority, path) = match text.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            (Some(&rest[..end]), &rest[end..])
        }
        None => (None, text),
    };
    authority.is_none_or(|authority| is_authority(authority, characters))
        && consists_of(path, ":@/", characters)
        && [query, fragment].iter().all(|part| consists_of(part, ":@/?", characters))
}

/// `[ userinfo "@" ] host [ ":" port ]`.
fn is_authority(text: &str, characters: Characters) -> bool {
    let (user, host_and_port) = text.split_once('@').unwrap_or(("", text));
    if !consists_of(user, ":", characters) {
        return false;
    }
    if let Some(literal) = host_and_port.strip_prefix('[') {
        let Some((address, port)) = literal.split_once(']') else { return false };
        return is_address(address) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = host_and_port.split_once(':').unwrap_or((host_and_port, ""));
    consists_of(host, "", characters) && is_port(port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// An address in brackets: IPv6, or a form of the future such as `v1.x`.
fn is_address(text: &str) -> bool {
    let future = text.strip_prefix(['v', 'V']).and_then(|rest| rest.split_once('.'));
    match future {
        Some((version, address)) => {
            !version.is_empty()
                && version.bytes().all(|b| b.is_ascii_hexdigit())
                && !address.is_empty()
                && !address.contains('%')
                && consists_of(address, ":", Characters::Ascii)
        }
        None => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// Whether a text has only unreserved characters, sub-delimiters, escapes and `more`.
fn consists_of(text: &str, more: &str, characters: Characters) -> bool {
    let plain = |c: char| {
        c.is_ascii_alphanumeric()
            || "-._~!$&'()*+,;=".contains(c)
            || more.contains(c)
            || (characters == Characters::Unicode && c > '\u{9f}')
    };
    let mut parts = text.split('%');
    parts.next().is_none_or(|part| part.chars().all(plain))
        && parts.all(|part| starts_with_escape(part) && part.chars().all(plain))
}

fn starts_with_escape(text: &str) -> bool {
    text.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Literals, and expressions such as `{?page,size*}`.
pub(super) fn is_template(text: &str) -> bool {
    let mut rest = text;
    loop {
        let (literal, more) =
            rest.split_once('{').map_or((rest, None), |(literal, more)| (literal, Some(more)));
        if !is_literal(literal) {
            return false;
        }
        let Some(more) = more else { return true };
        let Some((expression, after)) = more.split_once('}') else { return false };
        if !is_expression(expression) {
            return false;
        }
        rest = after;
    }
}

fn is_literal(text: &str) -> bool {
    let plain = |c: char| c > ' ' && c != '\u{7f}' && !"\"<>\\^`{|}".contains(c);
    text.split('%')
        .enumerate()
        .all(|(i, part)| (i == 0 || starts_with_escape(part)) && part.chars().all(plain))
}

fn is_expression(text: &str) -> bool {
    let variables = text.strip_prefix(|c| "+#./;?&=,!@|".contains(c)).unwrap_or(text);
    variables.split(',').all(|variable| {
        let name = match variable.split_once(':') {
            Some((name, length)) => {
                let fits = (1..=4).contains(&length.len())
                    && !length.starts_with('0')
                    && length.bytes().all(|b| b.is_ascii_digit());
                if !fits {
                    return false;
                }
                name
            }
            None => variable.strip_suffix('*').unwrap_or(variable),
        };
        name.split('.').all(is_variable_part)
    })
}

fn is_variable_part(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text
            .split('%')
            .enumerate()
            .all(|(i, part)| (i == 0 || starts_with_escape(part)) && part.chars().all(plain))
}
