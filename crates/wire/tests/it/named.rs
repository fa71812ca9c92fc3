//! What a request asks for is said in the other protocol, refused by its name, or left out and named.

use placet_core::env::ManualClock;
use placet_core::{Env, ErrorKind, Timestamp};
use placet_wire::protocol::Protocol;
use serde_json::{Value, json};

/// What becomes of a client's body in another protocol: the body and what was left out, or the refusal.
fn through(from: Protocol, to: Protocol, body: &Value) -> Result<(Value, Vec<String>), String> {
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
    let mut request =
        from.decode_request(body.to_string().as_bytes(), &from.as_str().into(), &env).expect("a request").request;
    request.model = "m".into();
    let written = to.encode_request(&request, &to.as_str().into(), false).map_err(|error| {
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
        error.message
    })?;
    let omitted = written.omitted.into_iter().map(|omission| omission.what).collect();
    Ok((serde_json::from_slice(&written.body).expect("JSON"), omitted))
}

fn others(than: Protocol) -> impl Iterator<Item = Protocol> {
    Protocol::ALL.into_iter().filter(move |protocol| *protocol != than)
}

#[test]
fn a_sound_that_the_model_said_is_kept_by_its_provider() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "audio": {"id": "audio_1"}}, {"role": "user", "content": "b"}]});
    let (own, omitted) = through(Protocol::OpenaiChat, Protocol::OpenaiChat, &body).unwrap();
    assert_eq!((&own["messages"][1]["audio"]["id"], omitted), (&json!("audio_1"), Vec::new()));
    for to in others(Protocol::OpenaiChat) {
        let refused = through(Protocol::OpenaiChat, to, &body).unwrap_err();
        assert!(refused.contains("`message.audio`"), "{to}: {refused}");
    }
}

#[test]
fn a_piece_of_a_video_is_refused_elsewhere() {
    let video = |said: Value| {
        json!({"contents": [{"role": "user", "parts": [{"text": "a"},
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}, "videoMetadata": said}]}]})
    };
    let piece = video(json!({"startOffset": "1s", "endOffset": "3s", "fps": 2}));
    let (own, omitted) = through(Protocol::Gemini, Protocol::Gemini, &piece).unwrap();
    assert_eq!((&own["contents"][0]["parts"][1]["videoMetadata"]["endOffset"], omitted), (&json!("3s"), Vec::new()));
    for to in others(Protocol::Gemini) {
        let refused = through(Protocol::Gemini, to, &piece).unwrap_err();
        assert!(refused.contains("`file.video_metadata`"), "{to}: {refused}");
        let (_, omitted) = through(Protocol::Gemini, to, &video(json!({"fps": 2}))).unwrap();
        assert!(omitted.contains(&"file.video_metadata.fps".to_owned()), "{to}: {omitted:?}");
    }
}

#[test]
fn hints_that_have_no_word_are_named() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let body = |effort: &str, summary: &str| {
        json!({"model": "m", "input": "a", "user": "u", "safety_identifier": "s",
            "reasoning": {"effort": effort, "summary": summary},
            "text": {"format": {"type": "json_schema", "name": "weather", "schema": schema, "strict": true}}})
    };
    let (own, omitted) =
        through(Protocol::OpenaiResponses, Protocol::OpenaiResponses, &body("minimal", "concise")).unwrap();
    assert_eq!((&own["user"], &own["safety_identifier"], omitted), (&json!("u"), &json!("s"), Vec::new()));
    for to in others(Protocol::OpenaiResponses) {
        let (_, omitted) = through(Protocol::OpenaiResponses, to, &body("low", "auto")).unwrap();
        assert!(omitted.contains(&"native.user".to_owned()), "{to}: {omitted:?}");
    }
    let (_, omitted) =
        through(Protocol::OpenaiResponses, Protocol::AnthropicMessages, &body("minimal", "concise")).unwrap();
    assert_eq!(omitted, ["native.user", "output.name", "reasoning_effort.minimal", "reasoning_summary.concise"]);
}

#[test]
fn an_order_that_cannot_be_kept_is_named() {
    let body = json!({"model": "m", "input": [{"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"role": "assistant", "content": "after"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"}]});
    for to in others(Protocol::OpenaiResponses) {
        let (_, omitted) = through(Protocol::OpenaiResponses, to, &body).unwrap();
        assert_eq!(omitted.contains(&"message.order".to_owned()), to == Protocol::OpenaiChat, "{to}: {omitted:?}");
    }
}

#[test]
fn what_the_server_would_refuse_is_refused_before() {
    let chat = |content: Value, warmth: f64| json!({"model": "m", "messages": [{"role": "user", "content": content}], "temperature": warmth});
    let refused = |body: &Value| through(Protocol::OpenaiChat, Protocol::AnthropicMessages, body).unwrap_err();
    assert!(refused(&chat(json!("a"), 1.3)).contains("`temperature`"));
    assert!(through(Protocol::OpenaiChat, Protocol::AnthropicMessages, &chat(json!("a"), 1.0)).is_ok());
    let picture = |mime: &str| {
        let url = format!("data:{mime};base64,AAAA");
        chat(json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": url}}]), 1.0)
    };
    for mime in ["image/bmp", "image/heic", "image/tiff", "image/svg+xml"] {
        let refused = refused(&picture(mime));
        assert!(refused.contains("`image.inline`") && refused.contains(mime), "{refused}");
    }
    for mime in ["image/png", "image/jpeg", "image/gif", "image/webp", "image/jpg"] {
        let (body, _) = through(Protocol::OpenaiChat, Protocol::AnthropicMessages, &picture(mime)).unwrap();
        assert!(!body.to_string().contains("image/jpg"), "{body}");
    }
    let film = json!({"contents": [{"role": "user", "parts": [{"text": "a"},
        {"fileData": {"fileUri": "https://example.com/v.mp4", "mimeType": "video/mp4"}}]}]});
    for to in others(Protocol::Gemini) {
        let refused = through(Protocol::Gemini, to, &film).unwrap_err();
        assert!(refused.contains("`file.video`"), "{to}: {refused}");
    }
}

#[test]
fn a_text_that_says_nothing_is_not_sent_where_it_is_refused() {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "\n\n"}, {"role": "user", "content": [
            {"type": "text", "text": " "}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]}]});
    let (sent, omitted) = through(Protocol::OpenaiChat, Protocol::AnthropicMessages, &body).unwrap();
    assert_eq!(omitted, ["text.blank"]);
    let texts: Vec<_> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|said| said["content"].as_array().unwrap())
        .map(|block| block["text"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, ["a", "b"]);
    let (sent, _) = through(Protocol::OpenaiChat, Protocol::Gemini, &body).unwrap();
    assert!(!sent.to_string().contains("\"text\":\"\""), "{sent}");
    for nothing in ["", " \n"] {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": nothing}]});
        let refused = through(Protocol::OpenaiChat, Protocol::AnthropicMessages, &body).unwrap_err();
        assert!(refused.contains("`message.user`"), "{refused}");
    }
}
