//! Keys that sign tokens the way issuers do, written against the cryptography library alone so that nothing here shares
//! the code that is being tested.

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A key pair with a name.
pub(crate) struct Signer {
    pub(crate) id: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn rsa(id: &'static str) -> Self {
        Self { id, pair: Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())) }
    }

    pub(crate) fn p256(id: &'static str) -> Self {
        Self { id, pair: Pair::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()) }
    }

    pub(crate) fn p384(id: &'static str) -> Self {
        Self { id, pair: Pair::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap()) }
    }

    pub(crate) fn ed25519(id: &'static str) -> Self {
        Self { id, pair: Pair::Ed25519(Ed25519KeyPair::generate().unwrap()) }
    }

    /// The algorithm that this key uses by default.
    fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::P384(_) => "ES384",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// The public key, without `alg`.
    pub(crate) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let coordinates = |pair: &EcdsaKeyPair, curve: &str, length: usize| {
            let (x, y) = pair.public_key().as_ref()[1..].split_at(length);
            json!({ "kty": "EC", "crv": curve, "x": text(x), "y": text(y) })
        };
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let parts = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({ "kty": "RSA", "n": text(&parts.n), "e": text(&parts.e) })
            }
            Pair::P256(pair) => coordinates(pair, "P-256", 32),
            Pair::P384(pair) => coordinates(pair, "P-384", 48),
            Pair::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref()) })
            }
        };
        jwk["kid"] = self.id.into();
        jwk
    }

    /// [`Self::jwk`] with further members.
    pub(crate) fn jwk_with(&self, members: &Value) -> Value {
        let mut jwk = self.jwk();
        jwk.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        jwk
    }

    /// A token with these claims, as an issuer would make it.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id }), claims)
    }

    /// A token with this very header, signed by the algorithm that it names, or else by the key's own.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.raw_token(&header.to_string(), &claims.to_string(), header["alg"].as_str().unwrap_or_default())
    }

    /// A token from texts that may be anything.
    pub(crate) fn raw_token(&self, header: &str, claims: &str, algorithm: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = encode(self.sign(algorithm, message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) | Pair::P384(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// Every encoding of the public key: none may ever serve as an HMAC secret.
    pub(crate) fn public_forms(&self) -> Vec<Vec<u8>> {
        let der = match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            Pair::P256(pair) | Pair::P384(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
        };
        let bare = match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Pair::P256(pair) | Pair::P384(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
        };
        let base64 = STANDARD.encode(&der);
        let lines: Vec<&str> =
            base64.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", lines.join("\n"));
        let jwk = self.jwk();
        let mut forms = vec![
            der,
            bare,
            format!("{pem}\n").into_bytes(),
            pem.into_bytes(),
            jwk.to_string().into_bytes(),
            jwks(&[&jwk]).to_string().into_bytes(),
            Vec::new(),
        ];
        for part in ["n", "x"] {
            if let Some(text) = jwk[part].as_str() {
                forms.push(text.as_bytes().to_vec());
                forms.push(URL_SAFE_NO_PAD.decode(text).unwrap());
            }
        }
        forms
    }
}

/// A key set of these keys.
pub(crate) fn jwks(keys: &[&Value]) -> Value {
    json!({ "keys": keys })
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token with one of its three parts replaced.
pub(crate) fn splice(token: &str, part: usize, with: &str) -> String {
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[part] = with;
    parts.join(".")
}
