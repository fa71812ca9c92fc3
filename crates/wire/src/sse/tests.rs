#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;

/// Everything that a stream holds when it arrives in these pieces.
fn decode(pieces: &[&[u8]]) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new();
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece).unwrap();
        events.extend(std::iter::from_fn(|| decoder.next_event()));
    }
    events.extend(std::iter::from_fn(|| decoder.finish()));
    events
}

fn data(texts: &[&str]) -> Vec<SseEvent> {
    texts.iter().map(|text| SseEvent { data: (*text).to_owned(), ..SseEvent::default() }).collect()
}

#[test]
fn the_rules_of_the_format() {
    let table: [(&str, Vec<SseEvent>); 14] = [
        ("data: a\n\ndata: b\n\n", data(&["a", "b"])),
        ("data:a\n\n", data(&["a"])),
        ("data:  a\n\n", data(&[" a"])),
        ("data: a\ndata: b\n\n", data(&["a\nb"])),
        ("data\n\n", data(&[""])),
        ("data:\ndata:\n\n", data(&["\n"])),
        ("\n\n\ndata: a\n\n\n\n", data(&["a"])),
        (": a comment\ndata: a\n: another\n\n", data(&["a"])),
        ("unknown: x\ndata: a\n\n", data(&["a"])),
        ("event: only a name\n\ndata: a\n\n", data(&["a"])),
        ("data: a\r\rdata: b\r\r", data(&["a", "b"])),
        ("data: a\r\n\r\ndata: b\n\r\n", data(&["a", "b"])),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", data(&["a"])),
        ("data: left open", data(&["left open"])),
    ];
    for (stream, wanted) in table {
        assert_eq!(decode(&[stream.as_bytes()]), wanted, "{stream:?}");
    }
}

#[test]
fn name_id_and_retry_belong_to_their_event() {
    let stream = "event: ping\nid: 7\nretry: 250\ndata: x\n\nretry: soon\nid: a\0b\ndata: y\n\n";
    let first = SseEvent { event: Some("ping".into()), data: "x".into(), id: Some("7".into()), retry: Some(250) };
    assert_eq!(decode(&[stream.as_bytes()]), [vec![first], data(&["y"])].concat());
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_harm_nothing_else() {
    assert_eq!(decode(&[b"data: a\xFFb\n\ndata: c\n\n"]), data(&["a\u{fffd}b", "c"]));
}

#[test]
fn an_event_beyond_the_limit_ends_the_decoding() {
    for stream in ["data: 0123456789abcdef", "data: 01234567\ndata: 89abcdef\n\n", "data: 0123456789abcdef\n\n"] {
        let mut decoder = SseDecoder::with_limit(16);
        decoder.push(b"data: ok\n\n").unwrap();
        assert_eq!(decoder.push(stream.as_bytes()), Err(EventTooLong { limit: 16 }), "{stream:?}");
        assert_eq!(decoder.push(b"\n\n"), Err(EventTooLong { limit: 16 }));
        assert_eq!(decoder.next_event(), data(&["ok"]).pop());
        assert_eq!(decoder.finish(), None);
    }
}

#[test]
fn a_comment_is_no_event() {
    let mut out = Vec::new();
    encode_comment("keep\nopen", &mut out);
    assert_eq!(decode(&[&out]), []);
}

#[test]
fn line_breaks_of_every_kind_in_data_come_out_as_lf() {
    let mut out = Vec::new();
    encode(&SseEvent { data: "a\r\nb\rc\nd".into(), ..SseEvent::default() }, &mut out);
    assert_eq!(decode(&[&out]), data(&["a\nb\nc\nd"]));
}

fn events() -> impl Strategy<Value = Vec<SseEvent>> {
    let line = "[a-zä€😀:{}\" ]{0,12}";
    let event = (
        proptest::option::of("[a-z.]{1,8}"),
        proptest::collection::vec(line, 1..4),
        proptest::option::of("[0-9]{1,4}"),
        proptest::option::of(0u64..10_000),
    );
    let event = event.prop_map(|(event, lines, id, retry)| SseEvent { event, data: lines.join("\n"), id, retry });
    proptest::collection::vec(event, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Every stream, cut at every offset, with every kind of line end, gives the events it was made from.
    #[test]
    fn where_a_stream_is_cut_does_not_matter(events in events(), comment in "[a-z]{0,5}") {
        let mut stream = Vec::new();
        for event in &events {
            encode_comment(&comment, &mut stream);
            encode(event, &mut stream);
        }
        let text = String::from_utf8(stream).unwrap();
        for line_end in ["\n", "\r\n", "\r"] {
            let bytes = text.replace('\n', line_end).into_bytes();
            prop_assert_eq!(&decode(&[&bytes]), &events);
            for cut in 0..=bytes.len() {
                prop_assert_eq!(&decode(&[&bytes[..cut], &bytes[cut..]]), &events, "cut at {}", cut);
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&decode(&single), &events);
        }
    }

    /// No bytes at all make it panic.
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        decode(&[&bytes]);
    }
}
