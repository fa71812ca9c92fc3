//! The provider's own tools, one row each: what every protocol calls them, or that it has none.

use placet_core::env::ManualClock;
use placet_core::hosted::{
    CodeInterpreter, ComputerUse, FileSearch, HostedOptions, HostedTool, RemoteMcp, WebFetch, WebSearch,
};
use placet_core::part::Native;
use placet_core::{Env, ErrorKind, Item, Timestamp, TurnRequest};
use placet_wire::protocol::Protocol;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a protocol makes of a tool: the fields of the body that tell of it, or the field that it refuses.
enum Form {
    /// `tools`.
    Tools(Value),
    /// `tools`, and what stands beside them.
    Beside(Value, &'static str, Value),
    Refused,
}
use Form::{Beside, Refused, Tools};

const PROTOCOLS: [Protocol; 4] =
    [Protocol::OpenaiResponses, Protocol::OpenaiChat, Protocol::AnthropicMessages, Protocol::Gemini];

fn rows() -> Vec<(HostedTool, [Form; 4])> {
    let options = HostedOptions::default;
    vec![
        (
            HostedTool::WebSearch(WebSearch::default()),
            [
                Tools(json!([{"type": "web_search"}])),
                Beside(Value::Null, "web_search_options", json!({})),
                Tools(json!([{"type": "web_search_20260209", "name": "web_search"}])),
                Tools(json!([{"googleSearch": {}}])),
            ],
        ),
        (
            HostedTool::WebFetch(WebFetch { max_uses: Some(2), ..WebFetch::default() }),
            [
                Refused,
                Refused,
                Tools(json!([{"type": "web_fetch_20260209", "max_uses": 2, "name": "web_fetch"}])),
                Refused,
            ],
        ),
        (HostedTool::UrlContext(options()), [Refused, Refused, Refused, Tools(json!([{"urlContext": {}}]))]),
        (
            HostedTool::FileSearch(FileSearch {
                stores: vec!["vs_1".into()],
                max_results: Some(3),
                ..FileSearch::default()
            }),
            [
                Tools(json!([{"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3}])),
                Refused,
                Refused,
                Tools(json!([{"fileSearch": {"fileSearchStoreNames": ["vs_1"], "topK": 3}}])),
            ],
        ),
        (
            HostedTool::CodeInterpreter(CodeInterpreter::default()),
            [
                Tools(json!([{"type": "code_interpreter", "container": {"type": "auto"}}])),
                Refused,
                Tools(json!([{"type": "code_execution_20260120", "name": "code_execution"}])),
                Tools(json!([{"codeExecution": {}}])),
            ],
        ),
        (
            HostedTool::Shell(options()),
            [
                Tools(json!([{"type": "shell"}])),
                Refused,
                Tools(json!([{"type": "bash_20250124", "name": "bash"}])),
                Refused,
            ],
        ),
        (HostedTool::ApplyPatch(options()), [Tools(json!([{"type": "apply_patch"}])), Refused, Refused, Refused]),
        (
            HostedTool::ComputerUse(ComputerUse {
                environment: Some("browser".into()),
                width: Some(800),
                height: Some(600),
                ..ComputerUse::default()
            }),
            [
                Tools(json!([{"type": "computer_use_preview", "environment": "browser", "display_width": 800,
                    "display_height": 600}])),
                Refused,
                Tools(json!([{"type": "computer_20250124", "display_width_px": 800, "display_height_px": 600,
                    "name": "computer"}])),
                Tools(json!([{"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}])),
            ],
        ),
        (
            HostedTool::TextEditor(options()),
            [
                Refused,
                Refused,
                Tools(json!([{"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}])),
                Refused,
            ],
        ),
        (
            HostedTool::Memory(options()),
            [Refused, Refused, Tools(json!([{"type": "memory_20250818", "name": "memory"}])), Refused],
        ),
        (
            HostedTool::ImageGeneration(options()),
            [Tools(json!([{"type": "image_generation"}])), Refused, Refused, Refused],
        ),
        (
            HostedTool::ToolSearch(options()),
            [
                Tools(json!([{"type": "tool_search"}])),
                Refused,
                Tools(json!([{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}])),
                Refused,
            ],
        ),
        (
            HostedTool::RemoteMcp(RemoteMcp {
                label: "crm".into(),
                url: Some("https://crm.example".into()),
                authorization: Some("t".into()),
                allowed_tools: vec!["find".into()],
                ..RemoteMcp::default()
            }),
            [
                Tools(json!([{"type": "mcp", "server_label": "crm", "server_url": "https://crm.example",
                    "authorization": "t", "allowed_tools": ["find"]}])),
                Refused,
                Beside(
                    json!([{"type": "mcp_toolset", "mcp_server_name": "crm", "default_config": {"enabled": false},
                        "configs": {"find": {"enabled": true}}}]),
                    "mcp_servers",
                    json!([{"type": "url", "url": "https://crm.example", "name": "crm", "authorization_token": "t"}]),
                ),
                // It would use every tool of the server.
                Refused,
            ],
        ),
    ]
}

fn asked(tool: HostedTool) -> TurnRequest {
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
    TurnRequest {
        model: "m".into(),
        items: vec![Arc::new(Item::user(env.new_id(), "a"))],
        hosted: vec![tool],
        ..TurnRequest::default()
    }
}

#[test]
fn every_tool_of_a_provider_has_its_form_or_is_refused() {
    let rows = rows();
    // Every kind but the one that is in a provider's own words.
    let kinds: std::collections::BTreeSet<&str> = rows.iter().map(|(tool, _)| tool.kind()).collect();
    assert_eq!(kinds.len(), 13, "{kinds:?}");
    for (tool, forms) in rows {
        for (protocol, form) in PROTOCOLS.into_iter().zip(forms) {
            let kind = tool.kind().to_owned();
            let written = protocol.encode_request(&asked(tool.clone()), &protocol.as_str().into(), false);
            let body = written.map(|encoded| serde_json::from_slice::<Value>(&encoded.body).expect("JSON"));
            match (form, body) {
                (Tools(tools), Ok(body)) => assert_eq!(body["tools"], tools, "{protocol}"),
                (Beside(tools, key, beside), Ok(body)) => {
                    assert_eq!((&body["tools"], &body[key]), (&tools, &beside), "{protocol}");
                }
                (Refused, Err(error)) => {
                    assert_eq!(error.kind, ErrorKind::Unsupported, "{protocol}: {error}");
                    assert!(error.message.contains(&format!("`hosted.{kind}")), "{protocol}: {error}");
                }
                (Refused, Ok(body)) => panic!("{protocol} takes {kind}: {body}"),
                (_, Err(error)) => panic!("{protocol} refuses {kind}: {error}"),
            }
        }
    }
}

#[test]
fn a_tool_in_a_providers_own_words_goes_out_word_for_word_and_to_nobody_else() {
    let words = json!({"type": "moonlight_20270101", "brightness": {"level": 3}, "name": "moonlight"});
    for protocol in PROTOCOLS {
        let own = Native { provider: protocol.as_str().into(), value: words.clone() };
        let request = asked(HostedTool::Raw(own));
        let written = protocol.encode_request(&request, &protocol.as_str().into(), false).expect("it is taken");
        let body: Value = serde_json::from_slice(&written.body).expect("JSON");
        assert_eq!(body["tools"], json!([words]), "{protocol}");
        let error = protocol.encode_request(&request, &"another".into(), false).expect_err("it is another's");
        assert!(error.kind == ErrorKind::Unsupported && error.message.contains("`hosted.raw`"), "{protocol}: {error}");
    }
}
