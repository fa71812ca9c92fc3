//! Every recorded answer, told to clients of every protocol: what they read is what was said.

use super::{Case, cases, fold, thought};
use placet_core::{ItemBody, Part, ProviderError, ProviderId, StopReason, Turn, TurnEvent};
use placet_wire::AnswerHead;
use placet_wire::names::Names;
use placet_wire::protocol::Protocol;
use serde_json::Value;

fn protocol(case: &Case) -> Option<Protocol> {
    Some(match case.endpoint.as_str() {
        "chat" => Protocol::OpenaiChat,
        "responses" => Protocol::OpenaiResponses,
        "messages" => Protocol::AnthropicMessages,
        "generateContent" | "streamGenerateContent" => Protocol::Gemini,
        _ => return None,
    })
}

fn client() -> ProviderId {
    ProviderId::new("client")
}

fn head() -> AnswerHead {
    let (id, model) = ("answer_1".to_owned(), "m".to_owned());
    AnswerHead { id, model, created: 1, provider: client(), stream_usage: true, request: None }
}

fn read(protocol: Protocol, owner: &ProviderId, stream: &[u8]) -> Vec<TurnEvent> {
    let mut decoder = protocol.decode_events(owner, Names::default());
    let mut events = Vec::new();
    decoder.push(stream, &mut events);
    decoder.end(&mut events);
    events
}

/// A text without the pictures that stand in it where a protocol has no other place for them.
fn without_pictures(text: &str) -> String {
    let mut rest = text;
    let mut left = String::new();
    while let Some((before, picture)) = rest.split_once("![generated image](data:") {
        left.push_str(before);
        rest = picture.split_once(')').map_or("", |(_, after)| after);
    }
    left + rest
}

/// What is shown of an answer, in its order, but for pictures, which are told in very different ways.
fn shown(turn: &Turn) -> Vec<(&'static str, String)> {
    let mut shown: Vec<(&'static str, String)> = Vec::new();
    let mut show = |kind: &'static str, text: &str| match shown.last_mut() {
        Some((last, said)) if *last == kind && kind != "call" => said.push_str(text),
        _ if text.is_empty() => {}
        _ => shown.push((kind, text.to_owned())),
    };
    for item in &turn.items {
        match &item.body {
            ItemBody::Message(message) => {
                for part in &message.parts {
                    match part {
                        Part::Text(text) => show("text", &without_pictures(&text.text)),
                        Part::Audio(_) => show("audio", "one"),
                        _ => {}
                    }
                }
            }
            ItemBody::Reasoning(reasoning) => show("thought", &reasoning.text),
            ItemBody::ToolCall(call) => {
                let arguments = call.arguments.parse().map(|map| Value::Object(map).to_string());
                let arguments = arguments.unwrap_or_else(|_| "cut".to_owned());
                show("call", &format!("{} {arguments}", call.name));
            }
            _ => {}
        }
    }
    shown
}

/// The items of an answer, one by one, what the provider ran itself behind the others.
fn items(turn: &Turn) -> Vec<(String, String)> {
    let item = |body: &ItemBody| match body {
        ItemBody::Message(message) => message.text(),
        ItemBody::Reasoning(reasoning) => reasoning.text.clone(),
        ItemBody::ToolCall(call) => format!("{} {}", call.name, call.arguments.as_text()),
        ItemBody::HostedCall(call) => call.kind.clone(),
        _ => String::new(),
    };
    let mut items: Vec<_> = turn.items.iter().map(|of| (of.body.kind().to_owned(), item(&of.body))).collect();
    // What a provider ran may be told of only at the end of its stream.
    items.sort_by_key(|(kind, _)| kind == "hosted_call");
    items
}

fn compare(what: &str, to: Protocol, ours: &Turn, theirs: &Result<Turn, ProviderError>, problems: &mut Vec<String>) {
    let has_cut = shown(ours).iter().any(|(kind, said)| *kind == "call" && said.ends_with(" cut"));
    let theirs = match theirs {
        Ok(theirs) => theirs,
        Err(error) => {
            // Its clients know a call that is none as an error.
            if !(has_cut && to == Protocol::Gemini) {
                problems.push(format!("{what}: {error}"));
            }
            return;
        }
    };
    let mut check = |field: &str, ours: String, theirs: String| {
        if ours != theirs {
            problems.push(format!("{what}: {field} {ours} became {theirs}"));
        }
    };
    let (mut mine, mut their) = (shown(ours), shown(theirs));
    if has_cut {
        mine.retain(|(kind, _)| *kind != "call");
        their.retain(|(kind, _)| *kind != "call");
    }
    if to == Protocol::OpenaiChat {
        // One message: thinking, text, calls.
        for list in [&mut mine, &mut their] {
            let of = |kind: &str| {
                list.iter().filter(|(of, _)| *of == kind).map(|(_, said)| said.as_str()).collect::<String>()
            };
            let folded = ["thought", "text", "audio", "call"].map(|kind| (kind, of(kind)));
            *list = folded.into_iter().filter(|(_, said)| !said.is_empty()).collect();
        }
    }
    check("content", format!("{mine:?}"), format!("{their:?}"));
    check("thinking", thought(ours), thought(theirs));
    let stop = |turn: &Turn| match &turn.stop {
        _ if has_cut => "cut".to_owned(),
        StopReason::Refusal | StopReason::ContentFilter => "refused".to_owned(),
        StopReason::StopSequence => "end".to_owned(),
        // That more would have come, protocols say in the one word that they have for it.
        StopReason::Pause | StopReason::MaxTokens => "not whole".to_owned(),
        StopReason::Other(word) if word == "OTHER" => "not whole".to_owned(),
        // A word that is the provider's own.
        StopReason::Other(_) if turn.calls().next().is_some() => "tool_calls".to_owned(),
        other => other.to_string(),
    };
    check("stop", stop(ours), stop(theirs));
    let usage = ours.usage.unwrap_or_default();
    let told = theirs.usage.unwrap_or_default();
    check("input", usage.total_input().to_string(), told.total_input().to_string());
    check("output", usage.output.to_string(), told.output.to_string());
    check("cached", usage.cache_read.to_string(), told.cache_read.to_string());
    check("reasoning", usage.reasoning.to_string(), told.reasoning.to_string());
    check("total", usage.total().to_string(), told.total().to_string());
}

#[test]
fn every_answer_is_the_same_to_clients_of_every_protocol() {
    let Some((single, sequences)) = cases() else {
        eprintln!("SKIPPED every_answer_is_the_same_to_clients_of_every_protocol: PLACET_CASSETTES names no folder");
        return;
    };
    let mut problems = Vec::new();
    let mut count = 0;
    for case in single.iter().chain(sequences.iter().flatten()).filter(|case| case.status() < 400) {
        let Some(from) = protocol(case) else { continue };
        let owner: ProviderId = "recorded".into();
        let events = match case.sse() {
            Some(stream) => read(from, &owner, stream.as_bytes()),
            None => match from.decode_response(&owner, Names::default(), case.body().as_bytes()) {
                Ok(events) => events,
                Err(_) => continue,
            },
        };
        let (partial, turn) = fold(&events);
        for to in Protocol::ALL {
            count += 1;
            let mut encoder = to.encode_events(head());
            let mut bytes = Vec::new();
            events.iter().for_each(|event| encoder.push(event, &mut bytes));
            encoder.end(&mut bytes);
            let (text, told) = fold(&read(to, &client(), &bytes));
            let name = format!("{} ({from}) to {to}", case.name);
            if to == from
                && to == Protocol::OpenaiResponses
                && let Ok(turn) = &turn
            {
                let mut encoder = to.encode_events(AnswerHead { provider: owner.clone(), ..head() });
                let mut bytes = Vec::new();
                events.iter().for_each(|event| encoder.push(event, &mut bytes));
                encoder.end(&mut bytes);
                let again = fold(&read(to, &owner, &bytes)).1.map(|turn| items(&turn));
                if again.as_ref() != Ok(&items(turn)) {
                    problems.push(format!("{name}, to its own: {:?} became {again:?}", items(turn)));
                }
            }
            match &turn {
                Ok(turn) => {
                    compare(&format!("{name}, streamed"), to, turn, &told, &mut problems);
                    let whole = to.encode_response(&head(), turn).to_string();
                    let read = to.decode_response(&client(), Names::default(), whole.as_bytes());
                    let read = read.and_then(|events| fold(&events).1);
                    compare(&format!("{name}, whole"), to, turn, &read, &mut problems);
                }
                Err(error) => {
                    if told.is_ok() {
                        problems.push(format!("{name}: {error} became an answer"));
                    }
                    if text != partial {
                        problems.push(format!("{name}: partial text {partial:?} became {text:?}"));
                    }
                }
            }
        }
    }
    eprintln!("translated: {count} answers told");
    let said = problems.join("\n");
    assert!(problems.is_empty(), "{} of {count}:\n{said}", problems.len());
}
