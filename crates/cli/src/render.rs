//! A run as a person watches it: text as it comes, each tool call with its outcome, and what it came to.

use crate::output::{Output, Tone, headline, printable, printable_json};
use placet_core::event::{CallEnded, EventBody, RunCompleted, RunFailed, RunStarted, TurnCompleted};
use placet_core::redact::StreamRedactor;
use placet_core::{CallId, Event, Money, Outcome, Redactor, Status, Usage};
use std::collections::{BTreeMap, HashMap};

/// Shows the events of one run. What a model or a tool wrote is masked and made safe for a terminal.
pub(crate) struct Render<'a> {
    output: &'a Output,
    redactor: Redactor,
    /// The masked stream of the present turn's text; there only while its pieces come in.
    live: Option<StreamRedactor>,
    mid_line: bool,
    /// What the calls of the present round ask for.
    round: HashMap<CallId, String>,
    /// The completed calls of a long round, which are told together: how many of each tool, and the time of the longest.
    together: Option<BTreeMap<String, (u64, u64)>>,
    calls: usize,
    /// Whether the answer must have a shape: then it alone is written, and only once it has it.
    shaped: bool,
    /// What was said last in such a run.
    said: String,
}

/// The most calls of a round that are shown one by one; of a longer one only those that did not complete are.
const ONE_BY_ONE: usize = 8;

impl<'a> Render<'a> {
    pub(crate) fn new(output: &'a Output, redactor: Redactor) -> Self {
        Render {
            output,
            redactor,
            live: None,
            mid_line: false,
            round: HashMap::new(),
            together: None,
            calls: 0,
            shaped: false,
            said: String::new(),
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if self.output.json {
            self.output.json_line(event);
            return;
        }
        match &event.body {
            EventBody::RunStarted(started) => self.started(event, started),
            EventBody::RunResumed(resumed) => {
                let lost = match resumed.interrupted.len() {
                    0 => String::new(),
                    n => format!("; of {} nobody knows whether they took effect", plural(n as u64, "call")),
                };
                self.quiet(&format!("{} taken up again{lost}", event.run));
            }
            EventBody::RunSuspended(suspended) => self.quiet(&format!("waits: {}", printable(&suspended.reason))),
            EventBody::TextDelta(delta) => {
                let live = self.live.get_or_insert_with(|| self.redactor.stream());
                let text = live.push(&delta.delta);
                self.text(&text);
            }
            EventBody::TurnCompleted(turn) => self.turn(turn),
            EventBody::CallProgress(progress) => {
                if let Some(message) = &progress.message {
                    self.quiet(&format!("    {}", self.safe_headline(message)));
                }
            }
            EventBody::CallLog(log) => self.quiet(&format!("    {}", self.safe_headline(&log.message))),
            EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => self.answered(ended),
            EventBody::ApprovalApproved(decided) => self.quiet(&format!("    approved by {}", printable(&decided.by))),
            EventBody::ApprovalDenied(decided) => self.quiet(&format!("    not approved ({})", printable(&decided.by))),
            EventBody::RetryStarted(retry) => {
                let wait = millis(retry.after_ms);
                self.quiet(&format!("asks again in {wait} (attempt {}): {}", retry.attempt, printable(&retry.reason)));
            }
            EventBody::Snapshot(snapshot) => {
                self.end_line();
                self.quiet(&format!("{} events passed by; the text so far:", snapshot.missed));
                let text = self.redactor.redact_text(&snapshot.text).into_owned();
                self.text(&text);
                self.live = Some(self.redactor.stream());
            }
            EventBody::OutputRejected(rejected) => {
                self.end_line();
                let again = if rejected.item.is_some() { "; asks again" } else { "" };
                let problems = self.safe_headline(&rejected.problems.join("; "));
                self.quiet(&format!("the answer does not have the wanted shape: {problems}{again}"));
            }
            EventBody::OutputFallback(fallback) => {
                let because = self.safe_headline(&fallback.because);
                self.quiet(&format!("{} was refused ({because}); goes on with {}", fallback.from, fallback.to));
            }
            EventBody::RunCompleted(completed) => self.completed(event, completed),
            EventBody::RunFailed(failed) => self.failed(event, failed),
            EventBody::RequestStarted(_)
            | EventBody::ReasoningDelta(_)
            | EventBody::ArgumentsDelta(_)
            | EventBody::CallRequested(_)
            | EventBody::CallStarted(_)
            | EventBody::ApprovalRequested(_) => {}
            unknown => self.quiet(&format!("{} (this version has no name for it)", printable(unknown.kind()))),
        }
    }

    fn started(&mut self, event: &Event, started: &RunStarted) {
        let mut granted: Vec<String> = started
            .grants
            .iter()
            .map(|grant| {
                let tools: Vec<_> = grant.tools.iter().map(|tool| tool.name.as_str()).collect();
                format!("{} ({})", grant.capability, tools.join(", "))
            })
            .collect();
        if granted.is_empty() {
            granted.push("nothing: it can only talk".to_owned());
        }
        self.quiet(&format!("{} · {}:{}", event.run, started.provider, started.model));
        self.shaped = started.output.is_some();
        self.quiet(&format!("granted: {}", printable(&granted.join(" · "))));
        if started.unredacted {
            self.warn("redaction is off: the model sees secrets that tools come across");
        }
    }

    fn turn(&mut self, completed: &TurnCompleted) {
        match self.live.take() {
            Some(mut live) => {
                let rest = live.finish();
                self.text(&rest);
            }
            // Somebody who only reads records sees the text of a turn when it is whole.
            None => {
                let text = self.redactor.redact_text(&completed.turn.text()).into_owned();
                self.text(&text);
            }
        }
        self.end_line();
        if self.shaped {
            self.said = completed.turn.text();
        }
        self.round = completed
            .turn
            .calls()
            .map(|call| (call.id.clone(), self.safe_headline(call.arguments.replay_text())))
            .collect();
        self.together = (self.round.len() > ONE_BY_ONE).then(BTreeMap::new);
        if self.together.is_some() {
            let mut tools: BTreeMap<&str, usize> = BTreeMap::new();
            completed.turn.calls().for_each(|call| *tools.entry(call.name.as_str()).or_default() += 1);
            for (tool, count) in tools {
                self.output.note(&format!("→ {} × {count}", self.output.paint_note(Tone::Strong, &printable(tool))));
            }
        } else {
            for call in completed.turn.calls() {
                let arguments = self.round.get(&call.id).map(String::as_str).unwrap_or_default();
                let name = self.output.paint_note(Tone::Strong, &printable(call.name.as_str()));
                self.output.note(&format!("→ {name} {}", self.output.paint_note(Tone::Quiet, arguments)));
            }
        }
        for omitted in &completed.omitted {
            self.quiet(&format!("left out of the request: {}", printable(omitted)));
        }
    }

    fn answered(&mut self, ended: &CallEnded) {
        self.calls += 1;
        let asked = self.round.remove(&ended.result.call);
        let outcome = &ended.result.outcome;
        let name = printable(ended.result.tool.as_str());
        match &mut self.together {
            Some(together) if outcome.status == Status::Completed => {
                let (count, longest) = together.entry(name).or_default();
                *count += 1;
                *longest = (*longest).max(ended.took_ms);
            }
            together => {
                let (mark, tone) = match outcome.status {
                    Status::Completed => ("✓", Tone::Good),
                    Status::Refused | Status::Conflict => ("–", Tone::Warn),
                    Status::Mistaken | Status::Failed | Status::Interrupted => ("✗", Tone::Bad),
                };
                let unknown = outcome.status == Status::Interrupted;
                let asked =
                    asked.filter(|_| together.is_some() || unknown).map(|text| format!(" {text}")).unwrap_or_default();
                let mark = self.output.paint_note(tone, mark);
                let facts = self.output.paint_note(Tone::Quiet, &describe(outcome, ended.took_ms));
                let said = match outcome.status {
                    Status::Completed => String::new(),
                    _ => format!(": {}", self.safe_headline(&outcome.text())),
                };
                self.output.note(&format!("{mark} {name}{asked} {facts}{said}"));
            }
        }
        if self.round.is_empty() {
            self.tell_together();
        }
    }

    /// Tells of the completed calls of a long round, which were not shown one by one.
    fn tell_together(&mut self) {
        for (tool, (count, longest)) in self.together.take().unwrap_or_default() {
            let mark = self.output.paint_note(Tone::Good, "✓");
            let facts = format!("(completed, the longest in {})", millis(longest));
            self.output.note(&format!("{mark} {tool} × {count} {}", self.output.paint_note(Tone::Quiet, &facts)));
        }
    }

    /// What is left of a turn that broke off: the end of its stream, or its text where no piece of it was seen.
    fn broke_off(&mut self, partial: Option<&str>) {
        let rest = match (self.live.take(), partial) {
            (Some(mut live), _) => live.finish(),
            (None, Some(partial)) => self.redactor.redact_text(partial).into_owned(),
            (None, None) => String::new(),
        };
        self.text(&rest);
    }

    fn completed(&mut self, event: &Event, completed: &RunCompleted) {
        self.broke_off(completed.partial.as_deref());
        self.end_line();
        self.tell_together();
        if let Some(answer) = &completed.output {
            let mut answer = answer.clone();
            self.redactor.redact_json(&mut answer);
            self.output.line(&printable_json(&serde_json::to_string_pretty(&answer).unwrap_or_default()));
        }
        let detail = completed.detail.as_deref().map(|text| format!(": {}", printable(text))).unwrap_or_default();
        let turns = plural(u64::from(completed.turns), "turn");
        let calls = plural(self.calls as u64, "call");
        let used = spent_and_billed(completed.usage, completed.cost, completed.billed);
        self.output.note("");
        self.quiet(&format!("{}{detail} · {turns}, {calls} · {used} · {}", completed.end, event.run));
    }

    fn failed(&mut self, event: &Event, failed: &RunFailed) {
        self.broke_off(failed.partial.as_deref());
        self.end_line();
        self.tell_together();
        self.output.note("");
        self.warn(&format!("{}: {}", event.run, printable(&self.redactor.redact_text(&failed.message))));
        if !self.said.is_empty() {
            self.quiet(&format!("said last: {}", self.safe_headline(&self.said)));
        }
        for hint in &failed.hints {
            self.quiet(&format!("hint: {}", printable(hint)));
        }
        self.quiet(&spent_and_billed(failed.usage, failed.cost, failed.billed));
    }

    fn safe_headline(&self, text: &str) -> String {
        headline(&self.redactor.redact_text(text), 120)
    }

    fn text(&mut self, text: &str) {
        if self.shaped {
            return;
        }
        if !text.is_empty() {
            self.output.out(&printable(text));
            self.mid_line = !text.ends_with('\n');
        }
    }

    /// Ends the line of text that is being written, if one is.
    pub(crate) fn end_line(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            self.output.out("\n");
        }
    }

    fn quiet(&self, text: &str) {
        self.output.note(&self.output.paint_note(Tone::Quiet, text));
    }

    fn warn(&self, text: &str) {
        self.output.note(&self.output.paint_note(Tone::Bad, text));
    }
}

/// Status, reason, sandbox level, time, what was cut and what was taken out, in a few words.
fn describe(outcome: &Outcome, took_ms: u64) -> String {
    let mut words = vec![outcome.status.to_string()];
    if let Some(reason) = &outcome.reason {
        words.push(reason.to_string());
    }
    if outcome.repeated {
        words.push("answered before".to_owned());
    }
    if let Some(level) = outcome.facts.get("sandbox").and_then(serde_json::Value::as_str) {
        words.push(format!("sandbox {level}"));
    }
    if let Some(code) = outcome.facts.get("exit_code").and_then(serde_json::Value::as_i64).filter(|code| *code != 0) {
        words.push(format!("exit code {code}"));
    }
    if let Some(signal) = outcome.facts.get("signal").filter(|signal| !signal.is_null()) {
        words.push(format!("signal {signal}"));
    }
    if outcome.facts.get("timed_out") == Some(&true.into()) {
        words.push("timed out".to_owned());
    }
    if let Some(cut) = &outcome.cut {
        words.push(format!("{} of {} {} kept", cut.kept, cut.total, cut.unit));
    }
    if !outcome.redactions.is_empty() {
        words.push(format!("{} redacted", outcome.redactions.total()));
    }
    if outcome.unredacted {
        words.push("not redacted".to_owned());
    }
    words.push(millis(took_ms));
    format!("({})", words.join(", "))
}

/// As [`spent`], and what is billed where anything is.
pub(crate) fn spent_and_billed(usage: Usage, cost: Option<Money>, billed: Option<Money>) -> String {
    let spent = spent(usage, cost);
    billed.map_or_else(|| spent.clone(), |billed| format!("{spent} · billed {billed}"))
}

/// Tokens and money in words. What is not known is said to be unknown, never shown as nothing.
pub(crate) fn spent(usage: Usage, cost: Option<Money>) -> String {
    let tokens = if usage == Usage::default() {
        "no usage reported".to_owned()
    } else {
        let cached = if usage.cache_read > 0 { format!(" ({} cached)", usage.cache_read) } else { String::new() };
        format!("{} tokens in{cached}, {} out", usage.total_input(), usage.output)
    };
    // What nothing was reported of costs nobody knows what.
    match cost.filter(|cost| usage != Usage::default() || *cost != Money::ZERO) {
        Some(cost) => format!("{tokens} · {cost}"),
        None => format!("{tokens} · cost unknown"),
    }
}

pub(crate) fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

pub(crate) fn millis(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_shown_as_nothing() {
        assert_eq!(spent(Usage::default(), None), "no usage reported · cost unknown");
        assert_eq!(spent(Usage::default(), Some(Money::ZERO)), "no usage reported · cost unknown");
        let usage = Usage { input: 5, cache_read: 2, output: 3, ..Usage::default() };
        assert_eq!(spent(usage, Some(Money::ZERO)), "7 tokens in (2 cached), 3 out · $0");
    }

    #[test]
    fn spans_are_shown_in_the_unit_that_fits() {
        assert_eq!([5, 1_234, 61_000].map(millis), ["5 ms", "1.2 s", "1 min 1 s"]);
    }
}
