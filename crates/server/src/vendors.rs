//! From a provider of a configuration to what asks it.

use crate::config::{Config, ProviderEntry};
use placet_core::ProviderId;
use placet_models::vendor::{KeyPlace, Quirk, Vendor, vendor};
use placet_models::{Adapter, AdapterOptions, Credential, Lookup, Protocol, Providers};
use placet_net::{Client, RetryPolicy};
use placet_wire::passing::Speech;
use std::sync::Arc;

/// The protocols that a vendor's own service speaks, the one to translate to first.
pub(crate) fn speeches(vendor: &str) -> &'static [Speech] {
    match vendor {
        "openai" | "xai" | "azure" => &[Speech::OpenaiChat, Speech::OpenaiResponses],
        "anthropic" => &[Speech::AnthropicMessages],
        "google" | "gemini" => &[Speech::Gemini],
        _ => &[Speech::OpenaiChat],
    }
}

/// The protocol of `placet-models` of the same name, where it has an adapter for it.
fn protocol(speech: Speech) -> Option<Protocol> {
    serde_json::from_value(speech.as_str().into()).ok()
}

/// How a provider is asked by whoever encodes and decodes.
pub(crate) fn options(name: &str, entry: &ProviderEntry, config: &Config) -> Option<AdapterOptions> {
    let (speech, protocol) = entry.protocols.iter().find_map(|speech| Some((*speech, protocol(*speech)?)))?;
    let row = entry.vendor.and_then(vendor);
    let mut options = match row {
        Some(row) => AdapterOptions::of_vendor(row, &at(row, entry)).ok()?,
        None => AdapterOptions::new(name, &entry.base_url).ok()?,
    };
    options.id = ProviderId::new(name);
    options.protocol = protocol;
    if row.is_none_or(|row| row.base_url != entry.base_url) {
        // As servers of the protocol take it.
        options.key = match speech {
            Speech::AnthropicMessages => KeyPlace::Header("x-api-key"),
            Speech::Gemini => KeyPlace::Header("x-goog-api-key"),
            _ => KeyPlace::Bearer,
        };
    }
    options.base_url = placet_net::Url::parse(&entry.base_url).ok()?;
    if let Some(key) = &entry.key {
        options.credential = Credential::Given(key.clone());
    } else if !row.is_some_and(|row| row.is_key_required && entry.base_url == row.base_url) {
        options.credential = Credential::None;
    }
    options.headers.extend(entry.headers.iter().cloned());
    options.timeouts = Some(entry.timeouts.unwrap_or(config.timeouts));
    // The client tries again by itself, and the route has other targets: trying here too would multiply.
    options.retry = RetryPolicy::none();
    Some(options)
}

/// A lookup that knows nothing but where the provider is.
fn at(row: &'static Vendor, entry: &ProviderEntry) -> Lookup {
    let url = entry.base_url.clone();
    Arc::new(move |name: &str| row.base_url_variables.contains(&name).then(|| url.clone()))
}

/// A provider that encodes and decodes, for every server of a configuration that speaks a protocol which it can be asked in.
pub(crate) fn providers(config: &Config, client: &Client) -> Providers {
    let mut providers = Providers::new();
    for (name, entry) in &config.providers {
        if let Some(options) = options(name, entry, config) {
            providers.register(Adapter::new(options, client.clone()));
        }
    }
    providers
}

/// Whether a provider may be asked for usage in streams.
pub(crate) fn takes_stream_usage(entry: &ProviderEntry) -> bool {
    !entry.vendor.and_then(vendor).is_some_and(|row| row.quirks.contains(&Quirk::NoStreamUsage))
}
