//! From a provider of a configuration to what asks it.

use crate::config::{Config, ProviderEntry};
use placet_core::ProviderId;
use placet_models::vendor::{KeyPlace, Quirk, Vendor, vendor};
use placet_models::{Adapter, AdapterOptions, Credential, Lookup, Protocol, Providers};
use placet_net::{Client, RetryPolicy};
use placet_wire::passing::Speech;
use std::sync::Arc;

/// The protocols that a server speaks, the one to translate to first. `is_elsewhere`: it is not the vendor's own, but one that
/// speaks as the vendor's does.
pub(crate) fn speeches(row: Option<&Vendor>, is_elsewhere: bool) -> Vec<Speech> {
    let Some(row) = row else { return vec![Speech::OpenaiChat] };
    let first = speech(if is_elsewhere { row.elsewhere } else { row.protocol });
    let is_openai = matches!(row.id, "openai" | "xai" | "azure");
    let both = [Speech::OpenaiChat, Speech::OpenaiResponses];
    let more = both.into_iter().filter(|speech| is_openai && *speech != first);
    std::iter::once(first).chain(more).collect()
}

/// The protocol of `placet-models` under the name that `placet-wire` has for it.
fn speech(protocol: Protocol) -> Speech {
    Speech::named(protocol.as_str()).unwrap_or(Speech::OpenaiChat)
}

/// The protocol of `placet-models` of the same name.
fn protocol(speech: Speech) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == speech.as_str())
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
    if row.is_none() {
        // It is a hint that the protocol itself has no word for, and many servers refuse words that they do not know.
        options.quirks.push(Quirk::NoTopK);
    }
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
    options.headers.extend(entry.secret_headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    options.timeouts = Some(entry.timeouts.unwrap_or(config.timeouts));
    // The client tries again by itself, and the route has other targets: trying here too would multiply.
    options.retry = RetryPolicy::none();
    Some(options)
}

/// The host of a provider that stands elsewhere than its vendor's own.
pub(crate) fn hidden(entry: &ProviderEntry, base_url: &placet_net::Url) -> Option<String> {
    let is_vendors = entry.vendor.and_then(vendor).is_some_and(|row| row.base_url == entry.base_url);
    (!is_vendors).then(|| base_url.host().to_ascii_lowercase())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_can_be_asked_in_and_vendors_are_asked_in_their_richest() {
        for speech in Speech::ALL {
            assert_eq!(protocol(speech).map(Protocol::as_str), Some(speech.as_str()));
        }
        let first = |id: &str, is_elsewhere| speeches(vendor(id), is_elsewhere)[0];
        assert_eq!((first("openai", false), first("openai", true)), (Speech::OpenaiResponses, Speech::OpenaiChat));
        assert_eq!((first("anthropic", true), first("google", false)), (Speech::AnthropicMessages, Speech::Gemini));
        assert_eq!(first("groq", false), Speech::OpenaiChat);
        assert_eq!(speeches(vendor("azure"), false).len(), 2);
    }
}
