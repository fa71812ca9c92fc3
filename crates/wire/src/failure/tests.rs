#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;

fn decode(status: u16, body: &str) -> ProviderError {
    decode_error(&ProviderId::new("p"), status, &HeaderMap::new(), body.as_bytes())
}

#[test]
fn every_shape_gives_kind_message_and_code() {
    use ErrorKind::*;
    let table: [(u16, &str, ErrorKind, &str, Option<&str>); 26] = [
        (
            401,
            r#"{"error":{"message":"bad key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            Authentication,
            "bad key",
            Some("invalid_api_key"),
        ),
        (
            429,
            r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#,
            RateLimited,
            "slow down",
            Some("rate_limit_exceeded"),
        ),
        (
            429,
            r#"{"error":{"message":"no money","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            QuotaExhausted,
            "no money",
            Some("insufficient_quota"),
        ),
        (
            400,
            r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ContextLength,
            "too long",
            Some("context_length_exceeded"),
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 5 tokens","type":"invalid_request_error"}}"#,
            ContextLength,
            "This model's maximum context length is 5 tokens",
            Some("invalid_request_error"),
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            ContextLength,
            "the request exceeds the available context size",
            Some("exceed_context_size_error"),
        ),
        (
            400,
            r#"{"error":{"message":"no temperature","type":"invalid_request_error","code":"unsupported_value"}}"#,
            Unsupported,
            "no temperature",
            Some("unsupported_value"),
        ),
        (
            404,
            r#"{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}"#,
            NotFound,
            "no such model",
            Some("model_not_found"),
        ),
        (404, r#"{"error":"model 'x' not found"}"#, NotFound, "model 'x' not found", None),
        (
            400,
            r#"{"code":"Client specified an invalid argument","error":"bad"}"#,
            InvalidRequest,
            "bad",
            Some("Client specified an invalid argument"),
        ),
        (
            400,
            r#"{"object":"error","message":"bad tools","type":"BadRequestError","param":null,"code":400}"#,
            InvalidRequest,
            "bad tools",
            Some("BadRequestError"),
        ),
        (
            422,
            r#"{"detail":[{"loc":["body","messages",0,"role"],"msg":"field required","type":"missing"}]}"#,
            InvalidRequest,
            "body.messages.0.role: field required",
            None,
        ),
        (422, r#"{"detail":"not so"}"#, InvalidRequest, "not so", None),
        (404, r#"{"detail":"Not Found"}"#, NotFound, "Not Found", None),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}"#,
            Overloaded,
            "Overloaded",
            Some("overloaded_error"),
        ),
        (
            429,
            r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]"#,
            RateLimited,
            "quota",
            Some("RESOURCE_EXHAUSTED"),
        ),
        (500, r#"{"errors":[{"message":"broken"}]}"#, Unavailable, "broken", None),
        (403, r#"{"message":"no"}"#, Permission, "no", None),
        (
            502,
            "<html><head><title>502 Bad Gateway</title></head><body>\n<h1>nginx</h1></body></html>",
            Unavailable,
            "502 Bad Gateway nginx",
            None,
        ),
        (503, "upstream connect error", Overloaded, "upstream connect error", None),
        (500, "", Unavailable, "it answered with status 500 and nothing readable", None),
        (500, "{}", Unavailable, "{}", None),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#,
            QuotaExhausted,
            "Insufficient Balance",
            Some("unknown_error"),
        ),
        (
            502,
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"boom","provider_name":"x"}}}"#,
            Unavailable,
            "Provider returned error: boom",
            None,
        ),
        (
            400,
            r#"{"error":{"message":"a billing cycle is a period","type":"invalid_request_error"}}"#,
            InvalidRequest,
            "a billing cycle is a period",
            Some("invalid_request_error"),
        ),
        (500, r#"{"error":{"message":"oops","type":"server_error"}}"#, Unavailable, "oops", Some("server_error")),
    ];
    for (status, body, kind, message, code) in table {
        let error = decode(status, body);
        assert_eq!((error.kind, error.message.as_str(), error.code.as_deref()), (kind, message, code), "{body}");
        assert_eq!(error.status, Some(status), "{body}");
    }
}

#[test]
fn the_body_is_kept_up_to_a_bound_and_never_cut_within_a_character() {
    let error = decode(500, &"€".repeat(30_000));
    let raw = error.raw.unwrap();
    assert!(raw.len() <= RAW_BYTES && raw.chars().all(|c| c == '€'), "{}", raw.len());
    assert_eq!(error.message.chars().count(), MESSAGE_CHARS);
}

#[test]
fn an_error_within_an_answer_takes_its_status_from_what_it_says() {
    let decode = |value| decode_error_value(&ProviderId::new("p"), &value);
    let error = decode(serde_json::json!({"error": {"code": 502, "message": "Provider disconnected"}}));
    assert_eq!((error.kind, error.status), (ErrorKind::Unavailable, Some(502)));
    let error = decode(serde_json::json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}));
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, None));
    assert_eq!(decode(serde_json::json!({"error": true})).kind, ErrorKind::Unavailable);
}

#[test]
fn the_request_id_is_found_under_its_usual_names() {
    let mut headers = HeaderMap::new();
    assert_eq!(request_id(&headers), None);
    headers.insert("cf-ray", http::HeaderValue::from_static("ray"));
    headers.insert("x-request-id", http::HeaderValue::from_static("req_1"));
    assert_eq!(request_id(&headers).as_deref(), Some("req_1"));
    let error = decode_error(&ProviderId::new("p"), 500, &headers, b"x");
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
}
