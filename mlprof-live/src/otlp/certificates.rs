//! TLS certificates for pushing metrics over HTTPS.

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Builds the TLS configuration from the PEM files in the environment. Without them, the
/// collector's certificate must be signed by an authority that Mozilla trusts, and no client
/// certificate is sent. `file` returns the content of the file set in the variable with the given
/// suffix, if any.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if it does not contain the expected PEM items.
pub(super) fn read(
    file: impl Fn(&str) -> Result<Option<Vec<u8>>, String>,
) -> Result<TlsConfig, String> {
    let mut config = TlsConfig::builder();
    if let Some(authority) = file("CERTIFICATE")? {
        config = config.root_certs(RootCerts::new_with_certs(&certificates(&authority)?));
    }
    match (file("CLIENT_CERTIFICATE")?, file("CLIENT_KEY")?) {
        (Some(certificate), Some(key)) => {
            let key = PrivateKey::from_pem(&key);
            let key = key.map_err(|error| format!("cannot read the client key: {error}"))?;
            let own = ClientCert::new_with_certs(&certificates(&certificate)?, key);
            config = config.client_cert(Some(own));
        }
        (None, None) => {}
        _ => return Err("the client certificate or its key is missing; set both".to_owned()),
    }
    Ok(config.build())
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut all = Vec::new();
    for item in parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => all.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("cannot read the certificates: {error}")),
        }
    }
    if all.is_empty() { Err("the certificate file has no certificate".to_owned()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_certificates_are_reported() {
        let of = |name: &'static str, text: &'static str| {
            read(move |asked| Ok((asked == name).then(|| text.as_bytes().to_vec())))
        };
        assert!(of("NONE", "").is_ok());
        let error = of("CERTIFICATE", "text").expect_err("no certificate");
        assert_eq!(error, "the certificate file has no certificate");
        let error = of("CLIENT_KEY", "text").expect_err("half of it");
        assert_eq!(error, "the client certificate or its key is missing; set both");
    }
}
