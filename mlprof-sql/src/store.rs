//! Tables in S3, and in what speaks its protocol.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use url::Url;

use crate::Error;

/// How often, and for how long, an answer is asked for again. By default it would be ten times and three minutes.
const RETRIES: usize = 3;
const RETRY_SECONDS: u64 = 20;

/// An object store, as far as errors name it.
pub(crate) struct Remote {
    address: String,
    endpoint: String,
    /// Whether anything says who asks. If not, that is what is wrong where the machine has no role either.
    has_credentials: bool,
}

/// Makes the bucket of an address known to queries. Who asks, where, and how, say the variables `AWS_*`.
pub(crate) fn register(context: &SessionContext, name: &str) -> Result<(Url, Remote), Error> {
    let no_address = |reason: String| Error::Address { address: name.to_owned(), reason };
    let mut address = Url::parse(name).map_err(|error| no_address(error.to_string()))?;
    if address.scheme() != "s3" {
        return Err(Error::Remote { address: name.to_owned() });
    }
    if address.host_str().is_none_or(str::is_empty) {
        return Err(no_address("it names no bucket".to_owned()));
    }
    let builder = AmazonS3Builder::from_env().with_url(name).with_retry(RetryConfig {
        max_retries: RETRIES,
        retry_timeout: Duration::from_secs(RETRY_SECONDS),
        ..RetryConfig::default()
    });
    let value = |key| builder.get_config_value(&key);
    let is_set = |key| value(key).is_some_and(|value| !value.is_empty() && value != "false");
    // Else the machine's role decides, which a machine of Amazon has and no other.
    let may_ask = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SkipSignature,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ];
    let has_credentials = may_ask.into_iter().any(is_set);
    let region = value(AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
    let named = value(AmazonS3ConfigKey::S3Endpoint).or_else(|| value(AmazonS3ConfigKey::Endpoint));
    let endpoint = named.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    // Whoever names an endpoint without encryption means it.
    let builder = match endpoint.starts_with("http://") {
        true => builder.with_allow_http(true),
        false => builder,
    };
    let remote = Remote { address: name.to_owned(), endpoint, has_credentials };
    let store = builder.build().map_err(|error| remote.error(&error))?;
    // Its last part is a folder, too.
    if let Ok(mut segments) = address.path_segments_mut() {
        segments.pop_if_empty().push("");
    }
    context.runtime_env().register_object_store(&address, Arc::new(store));
    Ok((address, remote))
}

impl Remote {
    /// What an object store's error means.
    pub(crate) fn error(&self, error: &object_store::Error) -> Error {
        let (address, endpoint) = (self.address.clone(), self.endpoint.clone());
        let reason = innermost(error);
        match meaning(error, &reason) {
            Meaning::NotFound => Error::NoBucket { address, endpoint },
            Meaning::NotAllowed if self.has_credentials => {
                Error::NotAllowed { address, endpoint, reason }
            }
            _ if !self.has_credentials => Error::NoCredentials { address },
            _ => Error::Store { address, endpoint, reason },
        }
    }
}

enum Meaning {
    NotFound,
    NotAllowed,
    Other,
}

/// Of what went wrong while files were listed the crate has no kinds, and the status that was answered stands in a
/// type of its own that it keeps to itself: only its text has it.
fn meaning(error: &object_store::Error, reason: &str) -> Meaning {
    use object_store::Error as Of;
    let status = reason.strip_prefix("Server returned non-2xx status code: ");
    match (error, status.and_then(|rest| rest.get(..3))) {
        (Of::NotFound { .. }, _) | (_, Some("404")) => Meaning::NotFound,
        (Of::PermissionDenied { .. } | Of::Unauthenticated { .. }, _)
        | (_, Some("401" | "403")) => Meaning::NotAllowed,
        _ => Meaning::Other,
    }
}

/// What is behind an error, on one line: those around it say what was tried.
fn innermost(error: &object_store::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    let mut source = error.source();
    while let Some(inner) = source {
        last = inner;
        source = inner.source();
    }
    last.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
