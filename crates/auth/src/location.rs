//! Which URLs may serve keys. The connection must be authentic, because the keys decide which tokens are accepted: TLS,
//! or a connection within the machine.

use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// The most redirects that are followed.
pub(crate) const MAX_REDIRECTS: usize = 3;

/// Parses an absolute URL with an authentic connection; the error names its fault.
pub(crate) fn read(text: &str) -> Result<Uri, &'static str> {
    // The parser drops fragments without a word.
    if text.contains('#') {
        return Err("must have no fragment");
    }
    let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
    let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
        return Err("must be an absolute URL");
    };
    if authority.as_str().contains('@') {
        return Err("must not hold a user or a password");
    }
    if authority.host().is_empty() {
        return Err("must name a host");
    }
    if *scheme == Scheme::HTTPS || (*scheme == Scheme::HTTP && is_loopback(authority.host())) {
        Ok(uri)
    } else {
        Err("must be https (http only on loopback)")
    }
}

/// The target of a redirect from `from`. It must be authentic and on the same host, because an open redirect of the
/// issuer must not let another host serve the keys.
pub(crate) fn redirected(from: &Uri, location: &str) -> Result<Uri, &'static str> {
    let absolute = match (location.starts_with('/') && !location.starts_with("//"), from.authority()) {
        (true, Some(authority)) => {
            format!("{}://{authority}{location}", from.scheme_str().unwrap_or("https"))
        }
        _ => location.to_owned(),
    };
    let to = read(&absolute)?;
    if from.scheme() == Some(&Scheme::HTTPS) && to.scheme() != Some(&Scheme::HTTPS) {
        return Err("leads from https to http");
    }
    if from.authority() != to.authority() {
        return Err("leads to another host");
    }
    Ok(to)
}

/// The host as the resolver and TLS take it: an IPv6 address without its brackets.
pub(crate) fn bare_host(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || bare_host(host).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_stays_authentic() {
        let https = read("https://issuer.example/keys").unwrap();
        let http = read("http://127.0.0.1:8080/keys").unwrap();
        let to = |from: &Uri, location: &str| redirected(from, location).map(|uri| uri.to_string());

        assert_eq!(to(&https, "/other?a=b").as_deref(), Ok("https://issuer.example/other?a=b"));
        assert_eq!(to(&https, "https://Issuer.example/k").as_deref(), Ok("https://Issuer.example/k"));
        assert_eq!(to(&http, "/other").as_deref(), Ok("http://127.0.0.1:8080/other"));

        for elsewhere in ["https://cdn.example/k", "https://issuer.example:8443/k", "https://127.0.0.1/k"] {
            assert_eq!(to(&https, elsewhere), Err("leads to another host"));
            assert_eq!(to(&http, elsewhere), Err("leads to another host"));
        }
        assert_eq!(to(&https, "http://127.0.0.1/k"), Err("leads from https to http"));
        for elsewhere in ["http://cdn.example/k", "//cdn.example/k", "other", "", "file:///etc/passwd"] {
            to(&https, elsewhere).unwrap_err();
            to(&http, elsewhere).unwrap_err();
        }
    }
}
