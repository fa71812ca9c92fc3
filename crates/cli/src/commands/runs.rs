//! `placet runs`: what runs did, from their journals.

use crate::args::RunsCommand;
use crate::failure::{Code, Done, Failure, code_of};
use crate::house::{House, standing};
use crate::interrupt::Interrupts;
use crate::output::{Tone, headline, printable, printable_json};
use crate::render::{Render, millis, plural, spent_and_billed};
use futures_util::{StreamExt, pin_mut};
use placet_core::{Cursor, EventBody, Role, RunId};
use placet_observe::{
    Difference, Divergence, Ending, Happening, Journal, ListedRun, Replay, damaged_lines, diff, follow, list_runs,
    replay, unlisted_runs,
};
use placet_store::SharedStore;
use std::path::Path;

pub(crate) async fn runs(house: &House, command: &RunsCommand) -> Done {
    match command {
        RunsCommand::List { limit } => list(house, *limit).await,
        RunsCommand::Show(run) => show(house, &run.run).await,
        RunsCommand::Follow { run, from } => follow_run(house, &run.run, from).await,
        RunsCommand::Resume(args) => super::run::resume(house, args).await,
        RunsCommand::Replay(run) => replay_run(house, &run.run).await,
        RunsCommand::Diff { a, b } => diff_runs(house, a, b).await,
        RunsCommand::Export { run, output } => export(house, &run.run, output.as_deref()).await,
    }
}

async fn list(house: &House, limit: usize) -> Done {
    let output = &house.output;
    if !house.has_store() {
        if !output.json {
            output.note(&format!(
                "There are no runs in {} yet: `placet run \"…\"` makes the first one.",
                house.home.display()
            ));
        }
        return Ok(());
    }
    let store = house.open_store().await?;
    for run in list_runs(&*store, &house.tenant, None, limit).await? {
        if output.json {
            output.json_line(&run);
        } else {
            output.line(&list_line(house, &run));
        }
    }
    let damaged = damaged_lines(&*store, &house.tenant).await?.len();
    if damaged > 0 {
        output.note(&format!(
            "{} of the list cannot be read and {} left out: `placet audit verify` names what is wrong",
            plural(damaged as u64, "line"),
            if damaged == 1 { "is" } else { "are" },
        ));
    }
    let unlisted = unlisted_runs(&*store, &house.tenant).await?.len();
    if unlisted > 0 {
        output.note(&format!(
            "{} in no line of the list: `placet audit verify` names them",
            if unlisted == 1 { "1 journal is".to_owned() } else { format!("{unlisted} journals are") },
        ));
    }
    Ok(())
}

fn list_line(house: &House, run: &ListedRun) -> String {
    let entry = &run.entry;
    let title = headline(&house.redactor.redact_text(&entry.title), 60);
    // To the second: the list is for eyes, `--json` has it exactly.
    let started = entry.started.to_string();
    let started = started.get(..19).unwrap_or(&started).replace('T', " ");
    let model = printable(&format!("{}:{}", entry.provider, entry.model));
    format!(
        "{}  {}  {:<13} {:<18} {title}",
        entry.run,
        house.output.paint(Tone::Quiet, &started),
        standing(&run.standing),
        headline(&model, 30),
    )
}

async fn journal(house: &House, store: &SharedStore, given: &str) -> Result<Journal, Failure> {
    let run = house.find_run(store, given).await?;
    Ok(Journal::read(&**store, &house.tenant, &run).await?)
}

async fn show(house: &House, given: &str) -> Done {
    let store = house.existing_store().await?;
    let replay = replay(&journal(house, &store, given).await?);
    if house.output.json {
        house.output.json_line(&replay);
        return Ok(());
    }
    let safe = |text: &str| printable(&house.redactor.redact_text(text));
    let output = &house.output;
    output.line(&output.paint(Tone::Strong, replay.run.as_str()));
    for item in &replay.items {
        if let placet_core::ItemBody::Message(message) = &item.body
            && message.role == Role::User
        {
            output.line(&format!("asked: {}", safe(&message.text())));
        }
    }
    output.line("");
    for moment in &replay.timeline {
        let at = output.paint(Tone::Quiet, &format!("{:>4} {:>9}", moment.number, millis(moment.after_ms)));
        output.line(&format!("{at}  {}", safe(&happened(&moment.what))));
    }
    output.line("");
    match &replay.result {
        Some(result) => {
            if let Some(answer) = &result.output {
                let mut answer = answer.clone();
                house.redactor.redact_json(&mut answer);
                output.line(&printable_json(&serde_json::to_string_pretty(&answer).unwrap_or_default()));
                output.line("");
            } else if !result.text.is_empty() {
                output.line(&safe(&result.text));
                output.line("");
            }
            if let Some(partial) = &result.partial {
                output.line(&format!("{} {}", output.paint(Tone::Quiet, "broke off after:"), safe(partial)));
            }
            if let Some(failure) = &result.failure {
                output.line(&output.paint(Tone::Bad, &safe(&failure.message)));
            }
        }
        None => output.line(&format!("It has not ended. `placet runs resume {}` goes on with it.", replay.run)),
    }
    let billed = replay.result.as_ref().and_then(|result| result.billed);
    output.line(&output.paint(Tone::Quiet, &spent_and_billed(replay.usage, replay.cost, billed)));
    Ok(())
}

fn happened(what: &Happening) -> String {
    match what {
        Happening::Started { model, capabilities } => {
            let capabilities: Vec<_> = capabilities.iter().map(|one| one.as_str()).collect();
            let granted = if capabilities.is_empty() { "nothing".to_owned() } else { capabilities.join(", ") };
            format!("started with {model}, granted {granted}")
        }
        Happening::Resumed { interrupted } if interrupted.is_empty() => "taken up again".to_owned(),
        Happening::Resumed { interrupted } => {
            format!("taken up again; the effect of {} is unknown", plural(interrupted.len() as u64, "call"))
        }
        Happening::Suspended { reason } => format!("waits: {reason}"),
        Happening::Turn { turn, took_ms, stop, usage, cost, billed, calls } => {
            let asks =
                if *calls == 0 { String::new() } else { format!(", asks for {}", plural(*calls as u64, "call")) };
            let used = usage.map(|usage| format!(", {}", spent_and_billed(usage, *cost, *billed))).unwrap_or_default();
            format!("turn {turn} ({stop}, {}{asks}{used})", millis(*took_ms))
        }
        Happening::Call { tool, capability, status, stage, reason, took_ms, .. } => {
            let of = capability.as_ref().map(|one| format!(" of {one}")).unwrap_or_default();
            let why = reason.as_ref().map(|reason| format!(" at {stage}: {reason}")).unwrap_or_default();
            format!("  {tool}{of} {status}{why} ({})", millis(*took_ms))
        }
        Happening::Rejected { problems, .. } => {
            format!("  rejected: it does not have the wanted shape: {}", problems.join("; "))
        }
        Happening::Fallback { from, to } => format!("  {from} was refused; {to} in its place"),
        Happening::Asked { question, .. } => format!("  asked a human: {question}"),
        Happening::Decided { approved, by, .. } => {
            format!("  {by} said {}", if *approved { "yes" } else { "no" })
        }
        Happening::Ended { end, detail } => {
            let detail = detail.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            format!("ended: {end}{detail}")
        }
        Happening::Unknown { kind } => format!("{kind} (this version has no name for it)"),
    }
}

async fn follow_run(house: &House, given: &str, from: &str) -> Done {
    let from = Cursor::parse(from).map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    let store = house.existing_store().await?;
    let run = house.find_run(&store, given).await?;
    let events = follow(store, &house.tenant, &run, from.durable);
    let mut render = Render::new(&house.output, house.redactor.clone());
    pin_mut!(events);
    let mut interrupts = Interrupts::new();
    loop {
        let event = tokio::select! {
            biased;
            () = interrupts.next() => return Err(Failure::told(Code::Cancelled)),
            event = events.next() => event,
        };
        match event {
            Some(event) => render.event(&*event?),
            None => return Ok(()),
        }
    }
}

async fn replay_run(house: &House, given: &str) -> Done {
    let store = house.existing_store().await?;
    let journal = journal(house, &store, given).await?;
    let mut render = Render::new(&house.output, house.redactor.clone());
    journal.events().for_each(|event| render.event(&event));
    let Replay { run, result, .. } = replay(&journal);
    end_of(house, &run, result.as_ref().map(|result| &result.end), &journal)
}

/// The exit code of a replayed run is the one it had.
fn end_of(house: &House, run: &RunId, end: Option<&Ending>, journal: &Journal) -> Done {
    match end {
        None => {
            if !house.output.json {
                house.output.note(&format!("It has not ended. `placet runs resume {run}` goes on with it."));
            }
            Ok(())
        }
        Some(Ending::Failed) => {
            let failed = journal.records().iter().rev().find_map(|kept| match &kept.record.event {
                EventBody::RunFailed(failed) => Some(code_of(&failed.kind)),
                _ => None,
            });
            Err(Failure::told(failed.unwrap_or(Code::Failed)))
        }
        Some(end) => super::run::code_of_end(end).map_or(Ok(()), |code| Err(Failure::told(code))),
    }
}

async fn diff_runs(house: &House, a: &str, b: &str) -> Done {
    let store = house.existing_store().await?;
    let difference = diff(&journal(house, &store, a).await?, &journal(house, &store, b).await?);
    let output = &house.output;
    if output.json {
        output.json_line(&difference);
        return Ok(());
    }
    let Difference { common, divergence } = difference;
    let Some(Divergence { number, left_kind, right_kind, path, left, right }) = divergence else {
        output.line(&format!("The runs are the same in all {}.", plural(common, "record")));
        return Ok(());
    };
    let safe = |text: &str| printable(&house.redactor.redact_text(text));
    output.line(&format!("The runs are the same in {} and part at record {number}.", plural(common, "record")));
    let kind = |kind: Option<String>| kind.unwrap_or_else(|| "nothing: it ends before".to_owned());
    let value = |value: Option<serde_json::Value>| value.map(|value| format!("  {value}")).unwrap_or_default();
    if !path.is_empty() {
        output.line(&format!("at {}", safe(&path)));
    }
    output.line(&format!("- {}{}", safe(&kind(left_kind)), safe(&value(left))));
    output.line(&format!("+ {}{}", safe(&kind(right_kind)), safe(&value(right))));
    Ok(())
}

async fn export(house: &House, given: &str, to: Option<&Path>) -> Done {
    let store = house.existing_store().await?;
    let journal = journal(house, &store, given).await?;
    let mut text = String::new();
    for line in journal.export() {
        text.push_str(&line);
        text.push('\n');
    }
    match to {
        None => house.output.out(&text),
        Some(path) => {
            std::fs::write(path, text).map_err(|error| {
                Failure::new(Code::Failed, format!("{} cannot be written: {error}", path.display()))
            })?;
            house.output.note(&format!(
                "{} written to {}",
                plural(journal.records().len() as u64, "record"),
                path.display()
            ));
        }
    }
    Ok(())
}
