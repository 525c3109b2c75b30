//! A public key of an issuer. The key's type and `alg` decide which algorithms it accepts; the token's header is only
//! compared with them.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

use crate::token::{Unverified, public_key_algorithm};

const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// A key that signatures are checked with.
#[derive(Debug)]
pub(crate) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    material: Material,
    verifying: DecodingKey,
}

/// The public key itself, by which two keys are compared.
#[derive(Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Uncompressed, as it is in X9.62.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, &self.algorithms, &self.material) == (&other.id, &other.algorithms, &other.material)
    }
}

impl Key {
    /// Reads an entry of a JWKS; the error says why it is left out.
    pub(crate) fn read(jwk: &Value) -> Result<Self, &'static str> {
        let jwk = jwk.as_object().ok_or("it is no object")?;
        if jwk.contains_key("d") {
            return Err("it is a private key");
        }
        match jwk.get("use") {
            None => {}
            Some(used) if used == "sig" => {}
            Some(_) => return Err("it is not for signatures"),
        }
        if let Some(operations) = jwk.get("key_ops")
            && !operations.as_array().is_some_and(|all| all.iter().any(|one| one == "verify"))
        {
            return Err("it is not for checking signatures");
        }
        let id = match jwk.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err("its kid is no string"),
        };
        let material = Material::read(jwk)?;
        if !material.is_sound() {
            return Err("it is no valid key of its type");
        }
        let algorithms = match jwk.get("alg") {
            None => material.algorithms().to_vec(),
            Some(name) => name
                .as_str()
                .and_then(public_key_algorithm)
                .filter(|algorithm| material.algorithms().contains(algorithm))
                .map(|algorithm| vec![algorithm])
                .ok_or("its alg is not one that its type has")?,
        };
        let verifying = material.verifying();
        Ok(Self { id, algorithms, material, verifying })
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether this key may be used with that algorithm.
    pub(crate) fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }

    /// Whether this key signed it.
    pub(crate) fn signed(&self, token: &Unverified<'_>) -> bool {
        self.is_for(token.algorithm)
            && (DEFAULT_PROVIDER.verifier_factory)(&token.algorithm, &self.verifying)
                .is_ok_and(|verifier| verifier.verify(token.message.as_bytes(), &token.signature).is_ok())
    }
}

impl Material {
    fn read(jwk: &Map<String, Value>) -> Result<Self, &'static str> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str).unwrap_or_default();
        let bytes =
            |name: &str| URL_SAFE_NO_PAD.decode(text(name)).map_err(|_| "one of its parts is no base64url");
        let number = |name: &str| {
            bytes(name).map(|bytes| bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>())
        };
        let point = |coordinate: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if x.len() != coordinate || y.len() != coordinate {
                return Err("its coordinates are not as long as its curve wants them");
            }
            Ok([&[4], x.as_slice(), y.as_slice()].concat())
        };
        match (text("kty"), text("crv")) {
            ("RSA", _) => {
                let (modulus, exponent) = (number("n")?, number("e")?);
                let bits = modulus.len() * 8 - modulus.first().map_or(0, |top| top.leading_zeros() as usize);
                if !RSA_BITS.contains(&bits) {
                    return Err("an RSA key must have 2048 to 8192 bits");
                }
                // With an exponent of 1 anybody can sign, with a long one checking takes long, and no key has even
                // numbers. The library notices some of this, and some only when a signature is checked.
                let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
                if !is_odd(&modulus) || !is_odd(&exponent) || exponent == [1] || exponent.len() > 4 {
                    return Err("its numbers are not those of an RSA key");
                }
                Ok(Self::Rsa { modulus, exponent })
            }
            ("EC", "P-256") => Ok(Self::P256(point(32)?)),
            ("EC", "P-384") => Ok(Self::P384(point(48)?)),
            ("OKP", "Ed25519") => Ok(Self::Ed25519(bytes("x")?)),
            ("oct", _) => Err("it is a symmetric key"),
            _ => Err("its type is not supported"),
        }
    }

    fn algorithms(&self) -> &'static [Algorithm] {
        match self {
            Self::Rsa { .. } => &[
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            Self::P256(_) => &[Algorithm::ES256],
            Self::P384(_) => &[Algorithm::ES384],
            Self::Ed25519(_) => &[Algorithm::EdDSA],
        }
    }

    /// Whether it is a key at all, such as a point that is on the curve.
    fn is_sound(&self) -> bool {
        match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
                .is_ok(),
            Self::P256(point) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_ok(),
            Self::P384(point) => ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).is_ok(),
            Self::Ed25519(point) => point.len() == 32 && ParsedPublicKey::new(&ED25519, point).is_ok(),
        }
    }

    fn verifying(&self) -> DecodingKey {
        match self {
            Self::Rsa { modulus, exponent } => DecodingKey::from_rsa_raw_components(modulus, exponent),
            // Named after the encoding, but the library hands the bytes on, and they are the bare point.
            Self::P256(point) | Self::P384(point) => DecodingKey::from_ec_der(point),
            Self::Ed25519(point) => DecodingKey::from_ed_der(point),
        }
    }
}
