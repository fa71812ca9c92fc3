//! What the pipeline costs: `cargo bench -p placet-tools`. Prints microseconds for each; on one thread, so time is CPU.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench ends where its ground is missing, and prints")]

use placet_core::{Arguments, Effect, Env, ToolCall};
use placet_tools::{BoundTool, CallContext, Grant, Options, Pipeline, Registry, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use std::hint::black_box;

/// How often each thing is done, after a tenth of that to warm up.
const TIMES: u32 = 20_000;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn add(effect: Effect) -> BoundTool {
    let add = |args: Add, _cx| async move { (args.a + args.b).to_string() };
    tool("add", "Adds two numbers.", add).effect(effect).build()
}

fn call(env: &Env) -> ToolCall {
    ToolCall {
        id: env.new_id(),
        provider_id: None,
        name: "add".into(),
        arguments: Arguments::from_text(r#"{"a": 40, "b": 2}"#),
        native: None,
    }
}

fn measure<I>(name: &str, mut input: impl FnMut() -> I, mut work: impl FnMut(I)) {
    let clock = Env::system().clock().clone();
    for _ in 0..TIMES / 10 {
        work(input());
    }
    let mut spent = std::time::Duration::ZERO;
    for _ in 0..TIMES {
        let input = black_box(input());
        let start = clock.steady();
        work(input);
        spent += clock.steady() - start;
    }
    println!("{name:<40} {:>9.2} us", spent.as_secs_f64() * 1e6 / f64::from(TIMES));
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let env = Env::system();
    let pipeline = |effect| {
        let registry = Registry::assemble([Grant::tool(add(effect))]).expect("a sound tool");
        Pipeline::new(registry, Options::default())
    };
    for effect in [Effect::Read, Effect::Idempotent, Effect::Once] {
        let pipeline = pipeline(effect);
        measure(
            &format!("one call, {effect:?}"),
            || call(&env),
            |call| {
                let run = pipeline.run(&call, CallContext::new(&env));
                black_box(runtime.block_on(run).expect("nothing fails in memory"));
            },
        );
    }
    let reads = pipeline(Effect::Read);
    measure(
        "a round of eight reads",
        || (0..8).map(|_| call(&env)).collect::<Vec<_>>(),
        |calls| {
            let cx = CallContext::new(&env);
            black_box(runtime.block_on(reads.run_round(&calls, &cx)).expect("nothing fails in memory"));
        },
    );
    let grant = Grant::tool(add(Effect::Read));
    measure(
        "a registry of a tool known before",
        || grant.clone(),
        |grant| {
            black_box(Registry::assemble([grant]).expect("a sound tool"));
        },
    );
    measure(
        "a registry of a new tool",
        || (),
        |()| {
            black_box(Registry::assemble([Grant::tool(add(Effect::Read))]).expect("a sound tool"));
        },
    );
}
