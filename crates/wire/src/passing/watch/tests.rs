#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use placet_core::{ErrorKind, ProviderId};

const CHAT: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a \\\"usage\\\": {}\"},\"finish_reason\":null}],\"usage\":null}\n\n",
    ": a comment\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":60},\
     \"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n",
    "data: [DONE]\n\n",
);
const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"function_call\"}],\
     \"usage\":{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":60,\"cache_write_tokens\":10},\"output_tokens\":7,\
     \"output_tokens_details\":{\"reasoning_tokens\":3}}}}\n\n",
);
const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":30,\"cache_read_input_tokens\":60,\
     \"cache_creation_input_tokens\":10,\"cache_creation\":{\"ephemeral_1h_input_tokens\":4},\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);
const GEMINI: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{\"promptTokenCount\":100}}\r\n\r\n",
    "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":100,\"cachedContentTokenCount\":60,\
     \"candidatesTokenCount\":4,\"thoughtsTokenCount\":3}}\r\n\r\n",
);

fn usage(input: u64, cache_read: u64, cache_write: u64, long: u64, reasoning: u64) -> Usage {
    Usage { input, cache_read, cache_write, cache_write_long: long, output: 7, reasoning, ..Usage::default() }
}

fn cases() -> [(Speech, &'static str, Usage); 4] {
    [
        (Speech::OpenaiChat, CHAT, usage(40, 60, 0, 0, 3)),
        (Speech::OpenaiResponses, RESPONSES, usage(30, 60, 10, 0, 3)),
        (Speech::AnthropicMessages, MESSAGES, usage(30, 60, 6, 4, 0)),
        (Speech::Gemini, GEMINI, usage(40, 60, 0, 0, 3)),
    ]
}

fn passed(mut watch: Watch, pieces: &[&[u8]]) -> (Vec<u8>, Option<Usage>, Passage) {
    let mut out = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&watch.pass(Bytes::copy_from_slice(piece)));
    }
    let (rest, passage) = watch.end();
    out.extend_from_slice(&rest);
    (out, watch.usage(), passage)
}

#[test]
fn usage_is_read_and_the_bytes_stay_the_same_wherever_they_are_cut() {
    for (speech, text, wanted) in cases() {
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            let (out, usage, passage) = passed(Watch::events(speech, false), &[&bytes[..at], &bytes[at..]]);
            assert_eq!((usage, passage), (Some(wanted), Passage::Whole), "{speech} at {at}");
            assert_eq!(out, bytes);
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(passed(Watch::events(speech, false), &single).1, Some(wanted));
    }
}

#[test]
fn the_event_that_nobody_asked_for_is_taken_out_wherever_it_is_cut() {
    let wanted: String = CHAT.split_inclusive("\n\n").filter(|event| !event.contains("\"choices\":[]")).collect();
    for at in 0..=CHAT.len() {
        let bytes = CHAT.as_bytes();
        let (out, usage, passage) = passed(Watch::events(Speech::OpenaiChat, true), &[&bytes[..at], &bytes[at..]]);
        assert_eq!(String::from_utf8(out).unwrap(), wanted, "at {at}");
        assert_eq!((usage.unwrap().output, passage), (7, Passage::Whole));
    }
    // Usage on a chunk that says something else stays.
    let other = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\n";
    let (out, usage, _) = passed(Watch::events(Speech::OpenaiChat, true), &[other.as_bytes()]);
    assert_eq!((out, usage.unwrap().input), (other.as_bytes().to_vec(), 1));
}

#[test]
fn a_stream_without_its_end_is_cut_and_one_with_an_error_has_failed() {
    for (speech, text, _) in cases() {
        let events: Vec<&str> =
            text.split_inclusive(if speech == Speech::Gemini { "\r\n\r\n" } else { "\n\n" }).collect();
        let first = events[0].as_bytes();
        assert_eq!(passed(Watch::events(speech, false), &[first]).2, Passage::Cut, "{speech}");
        let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n";
        assert_eq!(passed(Watch::events(speech, false), &[first, error.as_bytes()]).2, Passage::Failed, "{speech}");
    }
    let told = "data: {\"choices\":[{\"delta\":{\"content\":\"an \\\"error\\\": {}\"},\"finish_reason\":\"stop\"}],\"error\":null}\n\n";
    assert_eq!(passed(Watch::events(Speech::OpenaiChat, false), &[told.as_bytes()]).2, Passage::Whole);
}

#[test]
fn an_error_within_a_stream_is_cleaned_and_nothing_else_is() {
    let clean = |data: &[u8]| {
        let text = std::str::from_utf8(data).unwrap();
        text.contains("secret.host").then(|| text.replace("secret.host", "[address]").into_bytes())
    };
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"an \\\"error\\\" at secret.host\"}}],\"error\":null}\n\n";
    let of = |text: &str| with_clean_errors(&Bytes::copy_from_slice(text.as_bytes()), &clean);
    assert_eq!(of(said), None);
    for (event, wanted) in [
        (
            "data: {\"error\":{\"message\":\"at secret.host\"}}\n\n",
            "data: {\"error\":{\"message\":\"at [address]\"}}\n\n",
        ),
        (
            "event: error\r\ndata: {\"type\":\"error\",\"error\":{\"message\":\"secret.host\"}}\r\n\r\n",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"[address]\"}}\n\n",
        ),
        (
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"secret.host\"}}}\n\n",
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"[address]\"}}}\n\n",
        ),
    ] {
        assert_eq!(of(&format!("{said}{event}")).unwrap(), format!("{said}{wanted}"));
        assert_eq!(of(&event.replace("secret.host", "midnight")), None);
    }
}

#[test]
fn an_error_is_kept_whole_wherever_it_is_cut() {
    let said = "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}]}\n\n";
    for error in [
        "data: {\"error\":{\"message\":\"at secret.host\"}}\n\n",
        "event: error\r\ndata: {\"type\":\"error\",\"error\":{\"message\":\"secret.host\"}}\r\n\r\n",
        "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"secret.host\"}}}\n\n",
    ] {
        let stream = format!("{said}{error}");
        for cut in 1..stream.len() {
            let mut whole = Whole::default();
            let (head, rest) = stream.as_bytes().split_at(cut);
            let first = whole.pass(Bytes::copy_from_slice(head));
            let second = whole.pass(Bytes::copy_from_slice(rest));
            assert_eq!([&first[..], &second[..]].concat(), stream.as_bytes());
            assert!(second.ends_with(error.as_bytes()), "{cut}: the error goes on in one piece");
            // Where it breaks off there, nothing of it goes on.
            let mut broken = Whole::default();
            let told = [broken.pass(Bytes::copy_from_slice(head)), broken.end()].concat();
            let told = String::from_utf8(told).unwrap();
            assert!(!told.contains("secret") || told.trim_end() == stream.trim_end(), "{cut}: {told}");
        }
    }
    // A long event that is none goes on as it comes.
    let long = format!("data: {{\"data\":\"{}", "x".repeat(2000));
    let mut whole = Whole::default();
    assert_eq!(whole.pass(Bytes::from(long.clone())), long);
    assert!(whole.is_within());
    assert_eq!(whole.pass(Bytes::from_static(b"x")), "x");
    assert_eq!(whole.pass(Bytes::from_static(b"\"}\n\n")), "\"}\n\n");
    assert!(!whole.is_within());
}

#[test]
fn an_answer_opens_with_what_is_said_first() {
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    let start = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n: alive\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n";
    let read = |text: &str| Opening::read(Speech::AnthropicMessages, text.as_bytes());
    assert_eq!(read(start), Opening::Nothing);
    assert_eq!(read(&error[..20]), Opening::Nothing);
    assert!(
        matches!(read(error), Opening::Failed(_)) && matches!(read(&format!("{start}{error}")), Opening::Failed(_))
    );
    assert_eq!(read(&format!("data: {{\"type\":\"content_block_start\"}}\n\n{error}")), Opening::Said);
    let chat = Opening::read(Speech::OpenaiChat, b"data: {\"error\":{\"message\":\"full\"}}\n\n");
    assert_eq!(chat, Opening::Failed(b"{\"error\":{\"message\":\"full\"}}".to_vec()));
}

#[test]
fn a_broken_answer_is_ended_under_its_own_name_and_number() {
    let mut watch = Watch::events(Speech::OpenaiResponses, false);
    let mut error = ProviderError::new(ErrorKind::Network, ProviderId::new("p"), "broke");
    error.status = Some(502);
    let mut nothing = Vec::new();
    watch.encode_break("resp_ours", &error, &mut nothing);
    assert!(String::from_utf8(nothing).unwrap().contains("resp_ours"));
    for piece in [
        "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_theirs\",\"model\":\"m-1\",\"status\":\"in_progress\",\"tools\":[]}}\n\n",
        "event: x\ndata: {\"type\":\"x\",\"sequence_number\":1}\n\nevent: y\ndata: {\"type\":\"y\",\"sequence_number\":2}\n\nevent: z\nda",
        "ta: {\"type\":\"z\",\"sequence_num",
    ] {
        watch.pass(Bytes::from_static(piece.as_bytes()));
    }
    assert_eq!(watch.end().1, Passage::Cut);
    let mut out = Vec::new();
    watch.encode_break("resp_ours", &error, &mut out);
    let text = String::from_utf8(out).unwrap();
    let event: serde_json::Value =
        serde_json::from_str(text.strip_prefix("event: response.failed\ndata: ").unwrap().trim_end()).unwrap();
    assert_eq!(event["sequence_number"], 3, "{text}");
    let response = &event["response"];
    assert_eq!(
        (&response["id"], &response["model"], &response["status"], &response["error"]["message"]),
        (&"resp_theirs".into(), &"m-1".into(), &"failed".into(), &"broke".into())
    );
}

/// The words that end an answer end nothing where they are what is said.
#[test]
fn a_stream_is_not_whole_because_it_speaks_of_ends() {
    for (speech, event) in [
        (
            Speech::OpenaiChat,
            r#"{"choices":[{"delta":{"content":"ends with [DONE] or \"finish_reason\":\"stop\""},"finish_reason":null}]}"#,
        ),
        (
            Speech::OpenaiResponses,
            r#"{"type":"response.output_text.delta","delta":"then response.completed, response.failed"}"#,
        ),
        (
            Speech::AnthropicMessages,
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"message_stop"}}"#,
        ),
        (Speech::Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"\"finishReason\":\"STOP\""}]}}]}"#),
    ] {
        let told = format!("data: {event}\n\n");
        assert_eq!(passed(Watch::events(speech, false), &[told.as_bytes()]).2, Passage::Cut, "{speech}");
    }
}

#[test]
fn usage_of_a_whole_body_is_read_at_its_end() {
    let body = br#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":7}}"#;
    for pieces in [vec![&body[..]], vec![&body[..10], &body[10..30], &body[30..]]] {
        let (out, usage, _) = passed(Watch::body(Speech::OpenaiChat), &pieces);
        assert_eq!((out.as_slice(), usage.unwrap().input, usage.unwrap().output), (&body[..], 5, 7));
    }
    let list = br#"[{"usageMetadata":{"promptTokenCount":1}},{"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":7}}]"#;
    assert_eq!(passed(Watch::body(Speech::Gemini), &[list]).1.unwrap().input, 9);
    assert_eq!(passed(Watch::body(Speech::OpenaiChat), &[b"no json"]).1, None);
    assert_eq!(passed(Watch::body(Speech::OpenaiChat), &[]).1, None);
}
