#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::adapter::AdapterOptions;
use crate::catalog::Catalog;
use crate::credential::Lookup;
use crate::vendor::vendor;
use placet_core::hosted::{HostedTool, WebSearch};
use placet_core::part::{Media, MediaSource, Url};
use placet_core::turn::{CacheControl, Controls, OutputFormat};
use placet_core::{Env, ErrorKind, Item, Message, Origin, Part, Role, Schema, ToolChoice, TurnRequest};
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;

fn options(vendor_id: &str) -> AdapterOptions {
    let none: Lookup = Arc::new(|_| None);
    AdapterOptions::of_vendor(vendor(vendor_id).unwrap(), &none).unwrap()
}

fn model(can: &[&str]) -> CatalogModel {
    CatalogModel {
        id: "m".into(),
        provider: "p".into(),
        output: Some(1000),
        cans: can.iter().map(|what| (*what).to_owned()).collect(),
        ..CatalogModel::default()
    }
}

fn profile(known: &CatalogModel, user: Option<&ProfileRules>) -> Profile {
    let ground = ProfileGround { family: "p", protocol: Protocol::OpenaiChat, quirks: &[], known: Some(known), user };
    Profile::new(ModelRef::new("p", "m"), ground)
}

fn asks(controls: Controls) -> TurnRequest {
    TurnRequest { model: "m".into(), controls, ..TurnRequest::default() }
}

fn with_image() -> TurnRequest {
    let env = Env::system();
    let source = MediaSource::Url(Url { url: "https://example.org/a.png".into() });
    let message = Message { role: Role::User, parts: vec![Part::Image(Media::new(source))], native: None };
    TurnRequest { items: vec![Arc::new(Item::new(env.new_id(), Origin::User, message))], ..asks(Controls::default()) }
}

fn refused(profile: &Profile, request: &TurnRequest) -> String {
    let error = profile.check(request).expect_err("a refusal");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    error.message
}

#[test]
fn the_bundled_rules_are_whole() {
    let rules = ProfileRules::parse(RULES).expect("the bundled rules");
    assert!(rules.rules.len() > 20);
    for (text, word) in [
        (r#"{"rules": [{"no": ["tempretaure"]}]}"#, "tempretaure"),
        (r#"{"rules": [{"nope": []}]}"#, "nope"),
        (r#"{"rules": [{"constraints": [{"when": ["x.y"], "because": "z"}]}]}"#, "x.y"),
    ] {
        assert!(ProfileRules::parse(text).expect_err(text).problem.contains(word), "{text}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_by_feature_model_and_reason() {
    let blind = profile(&model(&["tools", "tool_choice"]), None);
    let told = refused(&blind, &with_image());
    assert!(told.contains("image") && told.contains("`m`") && told.contains("reads no pictures"), "{told}");
    let told = refused(&blind, &asks(Controls { max_output_tokens: Some(1001), ..Controls::default() }));
    assert!(told.contains("1000"), "{told}");
    let idle = profile(&model(&[]), None);
    let forced = TurnRequest { tool_choice: ToolChoice::Required, ..asks(Controls::default()) };
    assert!(refused(&idle, &forced).contains("made to call"), "{idle:?}");
    let strict = OutputFormat { name: "o".into(), description: None, schema: Schema::empty_object(), strict: true };
    let strict = TurnRequest { output: Some(strict), ..asks(Controls::default()) };
    assert!(refused(&idle, &strict).contains("schema"));
    assert!(profile(&model(&["output_schema"]), None).check(&strict).is_ok());
}

#[test]
fn hints_are_left_out_and_reported_and_nothing_else_is_touched() {
    let plain = profile(&model(&["image_input"]), None);
    let wanted = Controls {
        reasoning_effort: Some("high".into()),
        reasoning_budget: Some(5),
        temperature: Some(0.5),
        ..Controls::default()
    };
    let request = asks(wanted);
    let checked = plain.check(&request).unwrap();
    let names: Vec<&str> = checked.omitted.iter().filter_map(|told| told.split(' ').next()).collect();
    assert_eq!(names, ["reasoning_budget", "reasoning_effort"]);
    assert_eq!(checked.request.controls, Controls { temperature: Some(0.5), ..Controls::default() });
    let image = with_image();
    assert!(matches!(plain.check(&image).unwrap().request, Cow::Borrowed(_)), "nothing was copied");
}

#[test]
fn an_effort_beyond_the_models_becomes_the_nearest_and_is_told() {
    let thinker = profile(&model(&["reasoning", "effort_xhigh"]), None);
    for (asked, wanted) in [("max", "xhigh"), ("minimal", "low"), ("none", "low"), ("medium", "medium")] {
        let request = asks(Controls { reasoning_effort: Some(asked.into()), ..Controls::default() });
        let checked = thinker.check(&request).unwrap();
        assert_eq!(checked.request.controls.reasoning_effort.as_deref(), Some(wanted), "{asked}");
        assert_eq!(checked.omitted.len(), usize::from(asked != wanted), "{asked}: {:?}", checked.omitted);
    }
    let request = asks(Controls { reasoning_effort: Some("a lot".into()), ..Controls::default() });
    assert_eq!(thinker.check(&request).unwrap().request.controls.reasoning_effort, None);
}

#[test]
fn features_that_exclude_each_other_are_told_apart() {
    let rules = json!({"rules": [{"provider": "p", "constraints": [
        {"when": ["hosted.web_search", "output.strict"], "because": "citations"},
        {"when": ["seed", "temperature"], "leave_out": "temperature", "because": "it thinks"},
        {"when": ["seed", "top_k"], "leave_out": "top_k", "because": "it thinks", "unless": ["m"]}
    ]}]});
    let rules = ProfileRules::parse(&rules.to_string()).unwrap();
    let known = model(&["reasoning", "output_schema", "web_search"]);
    let profile = profile(&known, Some(&rules));
    let strict = OutputFormat { name: "o".into(), description: None, schema: Schema::empty_object(), strict: true };
    let search = vec![HostedTool::WebSearch(WebSearch::default())];
    let one = TurnRequest { hosted: search.clone(), ..asks(Controls::default()) };
    assert!(profile.check(&one).is_ok());
    let both = TurnRequest { output: Some(strict), ..one };
    let told = refused(&profile, &both);
    assert!(told.contains("`hosted.web_search` with `output.strict`") && told.contains("citations"), "{told}");
    let budget = Controls { seed: Some(1), temperature: Some(1.0), top_k: Some(3), ..Controls::default() };
    let request = asks(budget);
    let checked = profile.check(&request).unwrap();
    assert_eq!((checked.request.controls.temperature, checked.request.controls.top_k), (None, Some(3)));
    assert_eq!(checked.omitted, ["temperature (it thinks)"]);
}

#[test]
fn the_user_has_the_last_word() {
    let rules =
        ProfileRules::parse(r#"{"rules": [{"yes": ["image"], "no": ["stop"], "output": 5, "because": "I say so"}]}"#);
    let profile = profile(&model(&[]), Some(&rules.unwrap()));
    assert!(profile.check(&with_image()).is_ok());
    assert_eq!(profile.feature("image").unwrap().source, FeatureSource::User);
    assert_eq!(profile.output, Some(5));
    let told = refused(&profile, &asks(Controls { stop: vec!["x".into()], ..Controls::default() }));
    assert!(told.contains("I say so"), "{told}");
}

#[test]
fn profiles_of_real_models() {
    let openai = options("openai");
    let thinking = openai.profile("gpt-5.4");
    assert_eq!(thinking.window, Some(1_050_000));
    let efforts = &thinking.feature("reasoning_effort").unwrap().values;
    assert_eq!(efforts, &["none", "low", "medium", "high", "xhigh"]);
    let plain = openai.profile("gpt-4.1");
    assert_eq!(plain.status("reasoning_effort"), FeatureStatus::Unsupported);
    assert_eq!(plain.status("temperature"), FeatureStatus::Supported);
    let astra = openai.profile("gpt-6-astra");
    assert_eq!(astra.feature("reasoning_effort").unwrap().values, ["low", "medium", "high", "xhigh", "max"]);
    assert_eq!(astra.status("temperature"), FeatureStatus::Unsupported);
    let ttl = |ttl: &str| {
        asks(Controls {
            cache: Some(CacheControl { ttl: Some(ttl.into()), ..CacheControl::default() }),
            ..Controls::default()
        })
    };
    assert!(astra.check(&ttl("30m")).unwrap().omitted.is_empty());
    assert_eq!(astra.check(&ttl("1h")).unwrap().omitted.len(), 1);
    // Nothing is known of a model that nobody knows, so nothing is in its way but the server's quirks.
    let unknown = options("vllm").profile("my-own-model");
    assert_eq!(unknown.status("image"), FeatureStatus::Supported);
    assert_eq!((unknown.window, unknown.output), (None, None));
    let local = options("ollama").profile("llama");
    assert_eq!(local.status("tool_choice.required"), FeatureStatus::Unsupported);
}

/// Every model of the catalog has a profile that lets the simplest request through.
#[test]
fn the_simplest_request_passes_everywhere() {
    let catalog = Catalog::bundled();
    for known in catalog.models().filter(|known| known.is_chat()) {
        let Some(row) = vendor(&known.provider) else { continue };
        let profile = options(row.id).profile(&known.id);
        let checked = profile.check(&asks(Controls::default()).clone()).map(|checked| checked.omitted);
        assert_eq!(checked, Ok(Vec::new()), "{}", known.id);
    }
}

#[test]
fn the_beginning_of_an_answer_is_refused_where_the_model_does_not_go_on_from_it() {
    use placet_core::item::HostedCall;
    let env = Env::system();
    let said = |role| Message { role, parts: vec![Part::text("so")], native: None };
    let item = |body: placet_core::ItemBody| Arc::new(Item::new(env.new_id(), Origin::Model, body));
    let ask = |bodies: Vec<placet_core::ItemBody>| TurnRequest {
        items: bodies.into_iter().map(item).collect(),
        ..asks(Controls::default())
    };
    let begun = ask(vec![said(Role::User).into(), said(Role::Assistant).into()]);
    let anthropic = options("anthropic");
    let told = refused(&anthropic.profile("claude-opus-5-5"), &begun);
    assert!(told.contains("`message.prefill`"), "{told}");
    for model in ["claude-sonnet-4-5", "a-model-that-nobody-knows"] {
        assert!(anthropic.profile(model).check(&begun).is_ok(), "{model}");
    }
    // An answer that was paused goes back as it came.
    let call = HostedCall { provider: "anthropic".into(), kind: "server_tool_use".into(), value: json!({}) };
    let paused = ask(vec![said(Role::User).into(), call.into(), said(Role::Assistant).into()]);
    assert!(anthropic.profile("claude-opus-5-5").check(&paused).is_ok());
}
