//! Tables in S3 and compatible object stores.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionContext;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use url::Url;

use crate::Error;

/// Retry limits for requests. The defaults would be ten retries and three minutes.
const RETRIES: usize = 3;
const RETRY_SECONDS: u64 = 20;

/// Properties of an object store for error messages.
pub(crate) struct Remote {
    address: String,
    endpoint: String,
    /// `true` if credentials are configured. Otherwise their absence is reported as the cause if
    /// the machine has no role either.
    has_credentials: bool,
}

/// Registers the bucket of an address for queries. The `AWS_*` variables set the credentials, the
/// endpoint and the options.
pub(crate) fn register(context: &SessionContext, name: &str) -> Result<(Url, Remote), Error> {
    let no_address = |reason: String| Error::Address { address: name.to_owned(), reason };
    let mut address = Url::parse(name).map_err(|error| no_address(error.to_string()))?;
    if address.scheme() != "s3" {
        return Err(Error::Remote { address: name.to_owned() });
    }
    if address.host_str().is_none_or(str::is_empty) {
        return Err(no_address("the address has no bucket".to_owned()));
    }
    let builder = AmazonS3Builder::from_env().with_url(name).with_retry(RetryConfig {
        max_retries: RETRIES,
        retry_timeout: Duration::from_secs(RETRY_SECONDS),
        ..RetryConfig::default()
    });
    let value = |key| builder.get_config_value(&key);
    let is_set = |key| value(key).is_some_and(|value| !value.is_empty() && value != "false");
    // Without these, the role of the machine is used, which only Amazon's machines have.
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
    // An explicit endpoint without encryption is intended, so HTTP is allowed.
    let builder = match endpoint.starts_with("http://") {
        true => builder.with_allow_http(true),
        false => builder,
    };
    let remote = Remote { address: name.to_owned(), endpoint, has_credentials };
    let store = builder.build().map_err(|error| remote.error(&error))?;
    // The trailing slash marks the last path segment as a folder.
    if let Ok(mut segments) = address.path_segments_mut() {
        segments.pop_if_empty().push("");
    }
    context.runtime_env().register_object_store(&address, Arc::new(store));
    Ok((address, remote))
}

impl Remote {
    /// Converts an error of the object store.
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

/// Classifies an error. The `object_store` crate has no error kinds for failed listings and keeps
/// the HTTP status in a private type, so only the error text contains it.
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

/// Returns the message of the innermost error in one line. The outer errors only describe the
/// attempted operation.
fn innermost(error: &object_store::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    let mut source = error.source();
    while let Some(inner) = source {
        last = inner;
        source = inner.source();
    }
    last.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
