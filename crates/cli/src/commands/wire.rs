//! `placet wire`: what went over the wire, in Placet's own words or in another protocol.

use crate::args::{WireCommand, WireInput};
use crate::failure::{Code, Done, Failure};
use crate::output::{Output, Tone, printable};
use placet_core::env::ManualClock;
use placet_core::{Accumulator, Env, ProviderError, ProviderId, Timestamp, Turn, TurnEvent};
use placet_wire::inspect::{BadInput, Form, Placed, form_of, read_request, read_response, read_stream};
use placet_wire::protocol::Protocol;
use placet_wire::{AnswerHead, DecodedRequest, Omission, left_out};
use serde_json::json;
use std::io::Read;
use std::path::Path;

/// The longest input that is read: 256 MiB.
const LONGEST: u64 = 256 * 1024 * 1024;

pub(crate) fn wire(output: &Output, command: &WireCommand) -> Done {
    match command {
        WireCommand::Decode { protocol, events, input } => {
            let bytes = bytes_of(input)?;
            match input.form(&bytes) {
                Form::Request if *events => {
                    Err(Failure::new(Code::Usage, "the input looks like a request, which has no events")
                        .hint("say --response or --sse where it is an answer"))
                }
                Form::Request => decode_request(output, *protocol, &bytes),
                form => decode_answer(output, *protocol, form, &bytes, *events),
            }
        }
        WireCommand::Translate { from, to, model, stream, input } => {
            let bytes = bytes_of(input)?;
            let way = Way { from: *from, to: *to, model: model.as_deref(), stream: *stream };
            match input.form(&bytes) {
                Form::Request => way.request(output, &bytes),
                form => way.answer(output, form, &bytes),
            }
        }
    }
}

impl WireInput {
    fn form(&self, bytes: &[u8]) -> Form {
        match (self.request, self.response, self.sse) {
            (true, ..) => Form::Request,
            (_, true, _) => Form::Response,
            (.., true) => Form::Stream,
            _ => form_of(bytes),
        }
    }
}

fn bytes_of(input: &WireInput) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match input.file.as_deref().filter(|file| *file != Path::new("-")) {
        None => std::io::stdin().take(LONGEST + 1).read_to_end(&mut bytes),
        Some(path) => std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes)),
    };
    let name = input.file.as_deref().map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    if let Err(error) = read {
        let code = if error.kind() == std::io::ErrorKind::NotFound { Code::NotFound } else { Code::Failed };
        return Err(Failure::new(code, format!("{name} cannot be read: {error}")));
    }
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::new(
            Code::Failed,
            format!("{name} is longer than {LONGEST} bytes, the most that is read"),
        ));
    }
    Ok(bytes)
}

/// Time and chance stand still, so that the same input gives the same output.
fn still() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(0)), 0)
}

fn provider(protocol: Protocol) -> ProviderId {
    ProviderId::new(protocol.as_str())
}

fn bad(protocol: Protocol, input: &BadInput) -> Failure {
    Failure::new(Code::Failed, format!("this is not {protocol}: {input}"))
}

fn show(output: &Output, value: &serde_json::Value) {
    if output.json { output.json_line(value) } else { output.line(&format!("{value:#}")) }
}

fn read(protocol: Protocol, bytes: &[u8]) -> Result<DecodedRequest, Failure> {
    read_request(protocol, &provider(protocol), bytes, &still()).map_err(|error| bad(protocol, &error))
}

fn decode_request(output: &Output, protocol: Protocol, bytes: &[u8]) -> Done {
    let read = read(protocol, bytes)?;
    show(output, &json!({"protocol": protocol, "stream": read.stream, "request": read.request}));
    Ok(())
}

/// The events of an answer, and what ends them where its bytes are wrong.
fn events_of(protocol: Protocol, form: Form, bytes: &[u8]) -> (Vec<Placed>, Option<BadInput>) {
    let provider = provider(protocol);
    if form == Form::Stream {
        return match read_stream(protocol, &provider, bytes) {
            Ok(placed) => (placed, None),
            Err((bad, placed)) => (placed, Some(bad)),
        };
    }
    match read_response(protocol, &provider, bytes) {
        Ok(placed) => (placed, None),
        Err(bad) => (Vec::new(), Some(bad)),
    }
}

fn fold(protocol: Protocol, placed: &[Placed]) -> Result<Turn, ProviderError> {
    let mut fold = Accumulator::new();
    placed.iter().for_each(|placed| fold.push(&placed.event));
    fold.finish(&provider(protocol), &still())
}

fn decode_answer(output: &Output, protocol: Protocol, form: Form, bytes: &[u8], events: bool) -> Done {
    let (placed, wrong) = events_of(protocol, form, bytes);
    if events {
        for Placed { offset, event } in &placed {
            output.json_line(&json!({"offset": offset, "event": event}));
        }
    }
    if let Some(wrong) = wrong {
        return Err(bad(protocol, &wrong));
    }
    if !events {
        let shown = match fold(protocol, &placed) {
            Ok(turn) => json!({"protocol": protocol, "turn": turn}),
            // It is sound, and says that it failed.
            Err(error) => {
                let mut partial = Accumulator::new();
                placed.iter().for_each(|placed| partial.push(&placed.event));
                json!({"protocol": protocol, "error": error, "text": partial.text(), "usage": partial.usage()})
            }
        };
        show(output, &shown);
    }
    Ok(())
}

/// From one protocol to another.
struct Way<'a> {
    from: Protocol,
    to: Protocol,
    model: Option<&'a str>,
    stream: bool,
}

impl Way<'_> {
    fn request(&self, output: &Output, bytes: &[u8]) -> Done {
        let mut read = read(self.from, bytes)?;
        if let Some(model) = self.model {
            read.request.model = model.to_owned();
        }
        let stream = read.stream || self.stream;
        let written = self.to.encode_request(&read.request, &provider(self.to), stream)?;
        output.out(&String::from_utf8_lossy(&written.body));
        written.omitted.iter().for_each(|omission| note(output, omission));
        let model = read.request.model.as_str();
        match (self.to, model) {
            (Protocol::Gemini, "") | (_, "") if self.model.is_none() => {
                advise(output, "no model is named: Gemini names it in the path; say which with --model");
            }
            (Protocol::Gemini, model) => {
                let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
                advise(output, &format!("the model and the kind of answer are in the path: models/{model}:{method}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&self, output: &Output, form: Form, bytes: &[u8]) -> Done {
        let (placed, wrong) = events_of(self.from, form, bytes);
        let turn = fold(self.from, &placed);
        let head = self.head(&placed);
        match (form, &turn) {
            (Form::Stream, _) => {
                let mut encoder = self.to.encode_events(head.clone());
                let mut written = Vec::new();
                placed.iter().for_each(|placed| encoder.push(&placed.event, &mut written));
                // What is cut here is cut there: without its end and without an error of ours.
                if wrong.is_none() {
                    encoder.end(&mut written);
                }
                output.out(&String::from_utf8_lossy(&written));
            }
            (_, Ok(turn)) => output.out(&self.to.encode_response(&head, turn).to_string()),
            (_, Err(_)) if wrong.is_some() => {}
            (_, Err(error)) => {
                let (status, body) = self.to.encode_error(error);
                output.out(&body.to_string());
                advise(output, &format!("it is an error; its status is {status}"));
            }
        }
        if let Some(wrong) = wrong {
            return Err(bad(self.from, &wrong));
        }
        if let Ok(turn) = &turn {
            left_out(self.to, &head, turn).iter().for_each(|omission| note(output, omission));
        }
        Ok(())
    }

    fn head(&self, placed: &[Placed]) -> AnswerHead {
        let started = placed.iter().find_map(|placed| match &placed.event {
            TurnEvent::Started(started) => Some(started),
            _ => None,
        });
        let said = started.and_then(|started| started.model.as_deref());
        AnswerHead {
            id: started.and_then(|started| started.response_id.clone()).unwrap_or_else(|| "answer_1".to_owned()),
            model: self.model.or(said).unwrap_or("unknown").to_owned(),
            created: 0,
            provider: provider(self.to),
            stream_usage: true,
            request: None,
        }
    }
}

fn note(output: &Output, omission: &Omission) {
    if output.json {
        output.note(&json!({"left_out": omission.what, "why": omission.why}).to_string());
    } else {
        let what = printable(&omission.to_string());
        output.note(&format!("{} {what}", output.paint_note(Tone::Warn, "left out:")));
    }
}

fn advise(output: &Output, text: &str) {
    if !output.json {
        output.note(&format!("{} {}", output.paint_note(Tone::Quiet, "note:"), printable(text)));
    }
}
