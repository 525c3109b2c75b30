//! Why a request is not authenticated. Every reason is a variant and every sentence a constant, so nothing that a
//! caller sent is repeated.

use std::fmt;

/// The kinds of refusals. The HTTP layer has an error code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// Nothing to check was sent, or nothing that names a caller.
    Unauthenticated,
    /// A token that is not trusted.
    Invalid,
    /// A token that was good once.
    Expired,
    /// The header holds no token.
    Malformed,
}

/// Why a caller is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// None of the headers that may carry a token has one.
    NoToken,
    /// `Authorization` has another scheme.
    NotBearer,
    /// Neither the identity header nor the claim names a caller.
    NoIdentity,
    /// The caller's name breaks a rule.
    BadIdentity,
    /// The header that carries the token came more than once.
    RepeatedHeader,
    /// Larger than [`crate::MAX_TOKEN_BYTES`].
    TooLarge,
    /// Not three parts in base64url.
    NotAToken,
    /// The first part is no usable header: no object, a member that comes twice, a member of the wrong type.
    BadHeader,
    /// The second part is no usable set of claims, for the same reasons.
    BadClaims,
    /// No `exp`.
    NoExpiry,
    /// `none`, HMAC, or an unknown algorithm.
    BadAlgorithm,
    /// `crit` names an unsupported extension.
    CriticalExtension,
    /// `iss` is not an issuer that may use this header.
    UnknownIssuer,
    /// No key of the issuer has been seen yet.
    NoKeys,
    /// The issuer does not publish the key.
    UnknownKey,
    /// Without `kid` it could be any of several keys.
    AmbiguousKey,
    /// The key is not for this algorithm.
    WrongAlgorithm,
    /// The signature is not that of the key.
    BadSignature,
    /// The token has another audience.
    WrongAudience,
    /// `nbf` is in the future.
    NotYetValid,
    /// `exp` is in the past.
    Expired,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::NoToken,
        Self::NotBearer,
        Self::NoIdentity,
        Self::BadIdentity,
        Self::RepeatedHeader,
        Self::TooLarge,
        Self::NotAToken,
        Self::BadHeader,
        Self::BadClaims,
        Self::NoExpiry,
        Self::BadAlgorithm,
        Self::CriticalExtension,
        Self::UnknownIssuer,
        Self::NoKeys,
        Self::UnknownKey,
        Self::AmbiguousKey,
        Self::WrongAlgorithm,
        Self::BadSignature,
        Self::WrongAudience,
        Self::NotYetValid,
        Self::Expired,
    ];

    /// The family.
    pub fn kind(self) -> RefusalKind {
        match self {
            Self::NoToken | Self::NotBearer | Self::NoIdentity | Self::BadIdentity => {
                RefusalKind::Unauthenticated
            }
            Self::RepeatedHeader
            | Self::TooLarge
            | Self::NotAToken
            | Self::BadHeader
            | Self::BadClaims
            | Self::NoExpiry => RefusalKind::Malformed,
            Self::Expired => RefusalKind::Expired,
            Self::BadAlgorithm
            | Self::CriticalExtension
            | Self::UnknownIssuer
            | Self::NoKeys
            | Self::UnknownKey
            | Self::AmbiguousKey
            | Self::WrongAlgorithm
            | Self::BadSignature
            | Self::WrongAudience
            | Self::NotYetValid => RefusalKind::Invalid,
        }
    }

    /// A sentence for the caller.
    pub fn detail(self) -> &'static str {
        match self {
            Self::NoToken => "A token is required, and none was sent",
            Self::NotBearer => {
                "A token is required, and the Authorization header holds none of the Bearer scheme"
            }
            Self::NoIdentity => "A caller identity is required, and the request has none",
            Self::BadIdentity => {
                "The caller identity is too long, holds control characters or does not fit the required pattern"
            }
            Self::RepeatedHeader => "The header with the token was sent more than once",
            Self::TooLarge => "The token is too large",
            Self::NotAToken => "The token is not made of three parts in base64url",
            Self::BadHeader => "The header of the token is malformed",
            Self::BadClaims => "The claims of the token are malformed",
            Self::NoExpiry => "The token has no exp claim",
            Self::BadAlgorithm => "The algorithm of the token is not accepted",
            Self::CriticalExtension => "The token demands extensions that are not supported",
            Self::UnknownIssuer => "The issuer of the token is not accepted",
            Self::NoKeys => "No key of the issuer of the token is known yet; try again shortly",
            Self::UnknownKey => "The issuer of the token publishes no key that fits the token",
            Self::AmbiguousKey => "The token names no key, and its issuer has several that fit",
            Self::WrongAlgorithm => "The algorithm of the token is not that of its key",
            Self::BadSignature => "The signature of the token is wrong",
            Self::WrongAudience => "The token is meant for another audience",
            Self::NotYetValid => "The token is not valid yet",
            Self::Expired => "The token has expired",
        }
    }

    /// The value of `WWW-Authenticate`. As RFC 6750 wants it, there is no `error` for a caller who sent no token.
    pub fn challenge(self) -> String {
        const REALM: &str = "Bearer realm=\"hyperfleet\"";
        match self {
            Self::NoToken | Self::NotBearer => REALM.to_owned(),
            sent => format!("{REALM}, error=\"invalid_token\", error_description=\"{}\"", sent.detail()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl std::error::Error for Refusal {}
