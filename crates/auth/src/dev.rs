//! An issuer for development: a key on this machine, its JWKS, and tokens for any identity. A server accepts them only
//! when its configuration names the JWKS; nothing here is on by default.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyperfleet_core::Timestamp;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, EncodingKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value, json};

use crate::{Refusal, identity, location};

/// The name of the key's file.
const KEY_FILE: &str = "dev-issuer.key";

/// The name of the JWKS.
const JWKS_FILE: &str = "dev-issuer.jwks.json";

/// The default issuer of development tokens.
pub const ISSUER_URL: &str = "http://localhost/hyperfleet-dev";

/// The claims that the issuer sets itself.
const OWN_CLAIMS: [&str; 5] = ["iss", "sub", "aud", "iat", "exp"];

/// Why there is no development token.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// A file cannot be read or written.
    #[error("{}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the operating system says.
        reason: io::Error,
    },
    /// The key's file holds something else.
    #[error("{} holds no key that can be used: delete it to get a new one", .0.display())]
    NotAKey(PathBuf),
    /// Others could make tokens.
    #[error("{} is not safe: {why}", file.display())]
    Exposed {
        /// The key's file or its directory.
        file: PathBuf,
        /// What others can do, and what helps.
        why: String,
    },
    /// The issuer's URL would not be accepted.
    #[error("the URL of the issuer {0}")]
    IssuerUrl(&'static str),
    /// The identity would not be accepted.
    #[error("the identity cannot be used: {0}")]
    Identity(Refusal),
    /// A claim that follows from the other settings.
    #[error("the claim {0} is set by the issuer")]
    OwnClaim(String),
    /// The cryptography library refuses.
    #[error("cannot make a {0}")]
    Cryptography(&'static str),
}

/// A development issuer.
#[derive(Debug)]
pub struct DevIssuer {
    url: String,
    key_id: String,
    key: EncodingKey,
    jwk: Value,
    directory: PathBuf,
}

/// The claims of a token.
#[derive(Debug, Clone)]
pub struct Grant {
    /// The caller's name.
    pub identity: String,
    /// The claim that holds it.
    pub identity_claim: String,
    /// The audience, if the server wants one.
    pub audience: Option<String>,
    /// How long it is valid.
    pub lifetime: Duration,
    /// Further claims, such as groups for roles.
    pub claims: Map<String, Value>,
}

impl Grant {
    /// An hour for this identity, in the claim that servers look for by default.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            identity_claim: "email".to_owned(),
            audience: None,
            lifetime: Duration::from_secs(3600),
            claims: Map::new(),
        }
    }
}

impl DevIssuer {
    /// The issuer whose key is in this directory. The first time, directory and key are made, for the current user
    /// alone; the JWKS is always written.
    ///
    /// # Errors
    /// When a file cannot be read or written, holds no key, or the URL is not one that a server would accept.
    pub fn open(directory: &Path, url: &str) -> Result<Self, DevError> {
        location::read(url).map_err(DevError::IssuerUrl)?;
        let at = |file: &Path| {
            let file = file.to_owned();
            move |reason| DevError::File { file, reason }
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at(directory))?;
        let key_file = directory.join(KEY_FILE);
        refuse_exposed(directory, 0o022, "write to it", "go-w")?;
        let pem = match fs::read(&key_file) {
            Ok(pem) => {
                refuse_exposed(&key_file, 0o077, "read or write it", "600")?;
                pem
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pem = new_key()?;
                write_private(&key_file, pem.as_bytes()).map_err(at(&key_file))?;
                pem.into_bytes()
            }
            Err(error) => return Err(at(&key_file)(error)),
        };
        let issuer = Self::from_pem(&pem, url, directory).ok_or(DevError::NotAKey(key_file))?;
        let jwks_file = issuer.jwks_file();
        replace(&jwks_file, issuer.jwks().as_bytes()).map_err(at(&jwks_file))?;
        Ok(issuer)
    }

    fn from_pem(pem: &[u8], url: &str, directory: &Path) -> Option<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_pkcs8_der()).ok()?;
        let (x, y) = pair.public_key().as_ref().get(1..)?.split_at_checked(32)?;
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        // RFC 7638: the hash of just these members, in this order.
        let thumbprint = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let key_id = URL_SAFE_NO_PAD.encode(digest(&SHA256, thumbprint.as_bytes()));
        Some(Self {
            url: url.to_owned(),
            jwk: json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": key_id, "x": x, "y": y,
            }),
            key_id,
            key: EncodingKey::from_ec_der(key.secret_pkcs8_der()),
            directory: directory.to_owned(),
        })
    }

    /// The public key, as servers read it.
    pub fn jwks(&self) -> String {
        format!("{:#}\n", json!({ "keys": [self.jwk] }))
    }

    /// Where the JWKS is.
    pub fn jwks_file(&self) -> PathBuf {
        self.directory.join(JWKS_FILE)
    }

    /// Where the key is.
    pub fn key_file(&self) -> PathBuf {
        self.directory.join(KEY_FILE)
    }

    /// A token that is valid from `now` on.
    ///
    /// # Errors
    /// When no server could accept it.
    pub fn mint(&self, grant: &Grant, now: Timestamp) -> Result<String, DevError> {
        let identity = identity::plain(&grant.identity).map_err(DevError::Identity)?;
        let seconds = now.micros().div_euclid(1_000_000);
        let lifetime = i64::try_from(grant.lifetime.as_secs()).unwrap_or(i64::MAX);
        let mut claims = json!({ "iss": self.url, "sub": identity, "iat": seconds });
        claims["exp"] = seconds.saturating_add(lifetime).into();
        if let Some(audience) = &grant.audience {
            claims["aud"] = audience.as_str().into();
        }
        for (name, value) in &grant.claims {
            if OWN_CLAIMS.contains(&name.as_str()) || *name == grant.identity_claim {
                return Err(DevError::OwnClaim(name.clone()));
            }
            claims[name] = value.clone();
        }
        if grant.identity_claim != "sub" && OWN_CLAIMS.contains(&grant.identity_claim.as_str()) {
            return Err(DevError::OwnClaim(grant.identity_claim.clone()));
        }
        claims[&grant.identity_claim] = identity.into();

        let header = json!({ "alg": "ES256", "typ": "JWT", "kid": self.key_id });
        let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", part(&header), part(&claims));
        let signature = (DEFAULT_PROVIDER.signer_factory)(&Algorithm::ES256, &self.key)
            .ok()
            .and_then(|signer| signer.try_sign(message.as_bytes()).ok())
            .ok_or(DevError::Cryptography("signature"))?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The configuration of a server that accepts the tokens of `grant`, in YAML: with the JWKS from its file, or from
    /// `jwks_url` where it is served.
    pub fn snippet(&self, grant: &Grant, jwks_url: Option<&str>) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let keys = match jwks_url {
            Some(url) => format!("jwk_cert_url: {}", quoted(url)),
            None => format!("jwk_cert_file: {}", quoted(&self.jwks_file().to_string_lossy())),
        };
        let mut snippet = format!(
            "server:\n  jwt:\n    enabled: true\n    configs:\n      - issuer_url: {}\n        {keys}\n",
            quoted(&self.url)
        );
        if let Some(audience) = &grant.audience {
            snippet.push_str(&format!("        audience: {}\n", quoted(audience)));
        }
        if grant.identity_claim != "email" {
            snippet.push_str(&format!("        identity_claim: {}\n", quoted(&grant.identity_claim)));
        }
        snippet
    }
}

/// Refuses a file or directory of another user, or one that gives other users such rights.
fn refuse_exposed(file: &Path, rights: u32, can: &str, remedy: &str) -> Result<(), DevError> {
    let file = file.to_owned();
    let metadata = match fs::metadata(&file) {
        Ok(metadata) => metadata,
        Err(reason) => return Err(DevError::File { file, reason }),
    };
    let (owner, mode) = (metadata.uid(), metadata.permissions().mode() & 0o777);
    let why = if owner != rustix::process::geteuid().as_raw() {
        format!("it belongs to another user ({owner}); use another directory")
    } else if mode & rights != 0 {
        format!("other users can {can} (mode {mode:03o}); chmod {remedy} {}", file.display())
    } else {
        return Ok(());
    };
    Err(DevError::Exposed { file, why })
}

fn new_key() -> Result<String, DevError> {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
        .and_then(|pair| pair.to_pkcs8v1())
        .map_err(|_| DevError::Cryptography("key"))?;
    let text = STANDARD.encode(key.as_ref());
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n");
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"))
}

/// Creates a file that only its owner may read. The file must not exist.
fn write_private(file: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(content)
}

/// The file is never half written, because a server may read it at any time.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = file.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?.write_all(content)?;
    fs::rename(&fresh, file)
}
