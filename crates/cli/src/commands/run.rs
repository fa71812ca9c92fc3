//! `placet run` and `placet runs resume`: an agent at work.

use crate::approver::TerminalApprover;
use crate::args::{LimitArgs, ModelArgs, OutputWay, ResumeArgs, RunArgs, ShapeArgs};
use crate::failure::{Code, Done, Failure};
use crate::grants::Launch;
use crate::house::House;
use crate::interrupt::{Asked, Interrupts};
use crate::models;
use crate::output::Output;
use crate::render::{Render, millis};
use placet_core::event::EventBody;
use placet_core::turn::Controls;
use placet_core::{Cursor, Limits, Money, OutputStrategy, Price, RunId};
use placet_models::ModelRef;
use placet_models::probe::kept;
use placet_observe::{Ending, events_between};
use placet_runtime::output::Output as Shape;
use placet_runtime::{RunHandle, RunResult, Runtime, RuntimeError};
use placet_store::SharedStore;
use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// How long a run stays with a process that was killed. Renewed after a third of it.
const LEASE: Duration = Duration::from_secs(6);

/// How long handlers may take to stop: longer than the pipeline waits for them.
const STOPPING: Duration = Duration::from_secs(8);
/// How long a run that was left may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Longer than anything a person asks; a pipe that never ends must not fill the memory.
const MAX_QUESTION_BYTES: u64 = 8 << 20;

pub(crate) async fn run(house: &House, args: &RunArgs) -> Done {
    let question = question(&args.question)?;
    let id = args.id.as_deref().map(RunId::parse).transpose();
    let id = id.map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    let (limits, price) = limits(&args.limits)?;
    let shape = shape(&args.shape)?;
    let mut launch = Launch::new(&args.grants)?;
    let grants = launch.grants(house)?;
    let target = models::choose(house, &args.model, price.is_none()).await?;
    if limits.cost.is_some() && price.is_none() && target.rates.is_none() {
        return Err(Failure::new(
            Code::Usage,
            format!("--max-cost needs a price to reckon with, and none is known of {}", target.model),
        )
        .hint("give the model's prices per million tokens, for example --price 2,10"));
    }
    launch.base_url = target.base_url;
    if let Some(why) = &target.note
        && !house.output.json
    {
        house.output.note(why);
    }
    let store = house.open_store().await?;
    let asked = ModelRef::new(target.provider.id().clone(), target.model.clone());
    if let Some(probe) = kept(&*store, &house.tenant, &asked).await? {
        target.provider.learn(&target.model, &probe);
    }
    let program = program(house, store);
    let mut builder = program
        .runtime
        .run((target.provider, target.model))
        .input(question)
        .controls(controls(&args.model))
        .output_shape(shape)
        .limits(limits)
        .price(price)
        .rates(target.rates)
        .billing(target.billing)
        .launch(launch.to_map());
    if let Some(id) = id {
        builder = builder.id(id);
    }
    if let Some(text) = &args.instructions {
        builder = builder.instructions(text);
    }
    if args.grants.no_redaction {
        builder = builder.unredacted();
    }
    for grant in grants {
        builder = builder.grant(grant);
    }
    let handle = builder.start().await?;
    watch(house, &program, handle).await
}

pub(crate) async fn resume(house: &House, args: &ResumeArgs) -> Done {
    let store = house.existing_store().await?;
    let run = house.find_run(&store, &args.run.run).await?;
    let first = events_between(&*store, &house.tenant, &run, 0, 1).await?;
    let Some(EventBody::RunStarted(started)) = first.first().map(|event| &event.body) else {
        return Err(Failure::new(Code::Failed, format!("the journal of {run} does not begin with its start"))
            .hint(format!("`placet audit verify {run}` shows what is wrong with it")));
    };
    let mut launch = Launch::from_map(&started.launch)?;
    if let Some(url) = &args.base_url {
        launch.base_url = Some(url.clone());
    }
    let provider = models::again(house, started.provider.as_str(), launch.base_url.as_deref())?;
    let program = program(house, store);
    let mut interrupts = Interrupts::new();
    let mut waited = false;
    loop {
        let mut builder = program.runtime.resume(run.clone()).provider(provider.clone());
        for grant in launch.grants(house)? {
            builder = builder.grant(grant);
        }
        match builder.start().await {
            Ok(handle) => return watch(house, &program, handle).await,
            // A process that was killed could not give its lease back: it runs out by itself, unless the process lives.
            Err(RuntimeError::Held { owner, until, .. }) if !waited => {
                waited = true;
                let left = until.since(house.env.now()) + Duration::from_millis(50);
                if !house.output.json {
                    let left = millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
                    house.output.note(&format!("{owner} holds the run for another {left}, if it still lives; waits …"));
                }
                tokio::select! {
                    () = house.env.sleep(left) => {}
                    () = interrupts.next() => return Err(Failure::told(Code::Cancelled)),
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The runtime, and who asks the person.
struct Program {
    runtime: Runtime,
    approver: Arc<TerminalApprover>,
}

fn program(house: &House, store: SharedStore) -> Program {
    let approver = Arc::new(TerminalApprover::new(&house.env, house.output, house.redactor.clone()));
    let runtime = Runtime::builder(house.env.clone(), store)
        .tenant(house.tenant.clone())
        .owner(format!("process {}", std::process::id()))
        .lease(LEASE)
        .redactor(house.redactor.clone())
        .approver(approver.clone())
        .build();
    Program { runtime, approver }
}

/// Shows a run until its end.
async fn watch(house: &House, runtime: &Program, handle: RunHandle) -> Done {
    let run = handle.id().clone();
    let stopper = house.env.spawn("interrupts", stop_when_asked(house, &handle, runtime.approver.clone()));
    let mut events = handle.paced_events(Cursor::START);
    let mut render = Render::new(&house.output, house.redactor.clone());
    // What went wrong is told by the result.
    while let Some(Ok(event)) = events.next().await {
        render.event(&event);
    }
    render.end_line();
    let result = handle.wait().await;
    stopper.abort();
    match result {
        Ok(result) => ended(&result),
        Err(RuntimeError::Left { run }) => Err(left(house.output, &run)),
        Err(error) => {
            Err(Failure::of(&error).hint(format!("`placet runs resume {run}` goes on with what is recorded")))
        }
    }
}

/// Ctrl-C leaves a run where it is, to be resumed, once the calls that run are done; a second one tells these to stop, and
/// so does whatever else asks the program to end. A third one does not even wait for that.
///
/// A task of its own, so that it works while the printing is held up by whoever reads it.
fn stop_when_asked(
    house: &House,
    handle: &RunHandle,
    approver: Arc<TerminalApprover>,
) -> impl Future<Output = ()> + Send + 'static {
    let (run, leaving) = (handle.id().clone(), handle.leaving());
    let (env, output) = (house.env.clone(), house.output);
    let mut interrupts = Interrupts::new();
    async move {
        let asked = interrupts.asked().await;
        leaving.leave();
        if asked == Asked::ToStop {
            // A question that stands is given up at once: its call has not started.
            if !approver.is_asking() {
                output.note("stopping, when the calls that run are done (Ctrl-C again: ends them) …");
            }
            interrupts.next().await;
        }
        leaving.leave_now();
        tokio::select! {
            // The run is left, and the program ends by itself, unless its printing is held up.
            () = leaving.gone() => env.sleep(LAST_WORDS).await,
            () = env.sleep(STOPPING) => {}
            () = interrupts.next() => {}
        }
        placet_workspace::command::end_all();
        left(output, &run);
        std::process::exit(i32::from(Code::Cancelled as u8));
    }
}

/// The person has stopped the program, and is told how to go on.
fn left(output: Output, run: &RunId) -> Failure {
    output.note(&format!("stopped; `placet runs resume {run}` goes on where it was"));
    Failure::told(Code::Cancelled)
}

fn ended(result: &RunResult) -> Done {
    match (&result.failure, code_of_end(&result.end)) {
        // The renderer has shown the failure.
        (Some(failure), _) => Err(Failure::told(crate::failure::code_of(&failure.kind))),
        (None, Some(code)) => Err(Failure::told(code)),
        (None, None) => Ok(()),
    }
}

/// The exit code of an end, where it is not success.
pub(crate) fn code_of_end(end: &Ending) -> Option<Code> {
    match end {
        Ending::Completed | Ending::HandedBack => None,
        Ending::LimitReached => Some(Code::LimitReached),
        Ending::Cancelled => Some(Code::Cancelled),
        _ => Some(Code::Failed),
    }
}

fn question(given: &str) -> Result<String, Failure> {
    let text = if given == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_QUESTION_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| Failure::new(Code::Usage, format!("standard input cannot be read as text: {error}")))?;
        text
    } else {
        given.to_owned()
    };
    if text.len() as u64 > MAX_QUESTION_BYTES {
        return Err(Failure::new(Code::Usage, format!("the question is longer than {MAX_QUESTION_BYTES} bytes"))
            .hint("put it into a file and hand that over with --files"));
    }
    if text.trim().is_empty() {
        return Err(Failure::new(Code::Usage, "nothing was asked").hint("say what you want: placet run \"…\""));
    }
    Ok(text)
}

/// The shape that the answer must have, from a file.
fn shape(args: &ShapeArgs) -> Result<Option<Shape>, Failure> {
    let Some(path) = &args.output_schema else { return Ok(None) };
    let named = path.display();
    let wrong = |problem: String| Failure::new(Code::Usage, format!("{named} is no JSON Schema: {problem}"));
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Code::NotFound, format!("{named} cannot be read: {error}")))?;
    let schema: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_fine = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = stem.chars().filter(is_fine).take(64).collect();
    let shape = Shape::new(if name.is_empty() { "answer".to_owned() } else { name }, schema);
    if let Some(problem) = shape.problem() {
        return Err(wrong(problem.to_owned()));
    }
    let shape = shape.repairs(args.output_repairs);
    Ok(Some(match args.output_strategy {
        None => shape,
        Some(OutputWay::ProviderNative) => shape.strategy(OutputStrategy::ProviderNative),
        Some(OutputWay::FinalizerTool) => shape.strategy(OutputStrategy::FinalizerTool),
        Some(OutputWay::PosthocParse) => shape.strategy(OutputStrategy::PosthocParse),
        Some(OutputWay::PosthocParseWithRetry) => shape.strategy(OutputStrategy::PosthocParseWithRetry),
    }))
}

fn controls(args: &ModelArgs) -> Controls {
    Controls { temperature: args.temperature, max_output_tokens: args.max_output_tokens, ..Controls::default() }
}

fn limits(args: &LimitArgs) -> Result<(Limits, Option<Price>), Failure> {
    let price = args.price.as_deref().map(price).transpose()?;
    let cost = args.max_cost.as_deref().map(Money::parse).transpose();
    let cost = cost.map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    let default = Limits::default();
    let limits = Limits {
        rounds: args.max_rounds.unwrap_or(default.rounds),
        time_ms: args.max_time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        tokens: args.max_tokens,
        cost,
        ..default
    };
    Ok((limits, price))
}

fn price(text: &str) -> Result<Price, Failure> {
    let wrong = || {
        Failure::new(Code::Usage, format!("{text:?} are no prices")).hint(
            "give input,output or input,output,cached-input in US dollars per million tokens, for example 2,10,0.2",
        )
    };
    let parts: Result<Vec<_>, _> = text.split(',').map(|part| Money::parse(part).map(|money| money.0)).collect();
    match parts.as_deref() {
        Ok([input, output]) => {
            Ok(Price { input: *input, output: *output, cache_read: None, cache_write: None, cache_write_long: None })
        }
        Ok([input, output, cached]) => Ok(Price {
            input: *input,
            output: *output,
            cache_read: Some(*cached),
            cache_write: None,
            cache_write_long: None,
        }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn prices_are_two_or_three_amounts() {
        assert_eq!(price("2,10").expect("prices").output.to_string(), "10");
        assert_eq!(price("2, 10, 0.2").expect("prices").cache_read.unwrap().to_string(), "0.2");
        for text in ["", "2", "2,", "a,b", "1,2,3,4", "-1,2"] {
            assert_eq!(price(text).expect_err(text).code, Code::Usage);
        }
    }
}
