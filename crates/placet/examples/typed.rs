//! An agent that looks something up with a tool and gives its answer as a value of a type. Nothing it says has to be taken
//! apart: the answer is held to the type's schema, and a model that misses it is told what is wrong and asked again.
//!
//! ```text
//! cargo run -p placet --example typed                     # a script answers, wrongly at first
//! cargo run -p placet --example typed -- openai:gpt-5.4   # a real model, with its key in the environment
//! ```

use placet::test::{Bench, Script, ScriptTurn};
use placet::{EventBody, Output, RunBuilder, ToolOutput, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;

#[derive(Debug, Deserialize, JsonSchema)]
struct Look {
    /// The number of the order, as in `A-17`.
    order: String,
}

/// What is to become of a complaint.
#[derive(Debug, Deserialize, JsonSchema)]
struct Decision {
    verdict: Verdict,
    /// In cents; 0 where nothing is paid back.
    refund: u32,
    /// For the customer, in one sentence.
    message: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Refund,
    Replace,
    Reject,
}

const QUESTION: &str = "The customer says that the lamp of order A-17 came broken. Decide.";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(decide())
}

async fn decide() -> Result<(), Box<dyn std::error::Error>> {
    // What the model reads of an order, and the whole of it for this program.
    let look = tool("look_up_order", "Looks an order up.", |look: Look, _cx| async move {
        let order = json!({"order": look.order, "paid": 4900, "item": "lamp", "weight": 2.1});
        ToolOutput::text("a lamp, 49.00 paid, delivered yesterday").payload(order)
    });
    let output = Output::of::<Decision>().description("What is to become of the complaint.").repairs(2);
    let run = start()?.tool(look).output_shape(output).observer(|event| {
        if let EventBody::OutputRejected(rejected) = &event.body {
            say(&format!("rejected: {}", rejected.problems.join("; ")));
        }
    });
    let result = run.await?;
    for payload in &result.payloads {
        say(&format!("{} gave {}", payload.tool, payload.value));
    }
    let decision: Decision = result.parse()?;
    say(&format!("{:?}, {} cents: {}", decision.verdict, decision.refund, decision.message));
    Ok(())
}

/// A run with the model that was named; without one, with a script.
fn start() -> Result<RunBuilder, placet::RuntimeError> {
    if let Some(model) = std::env::args().nth(1) {
        return Ok(placet::from_environment()?.run(model).input(QUESTION));
    }
    let decision = |refund: serde_json::Value| {
        let message = "We are sorry: your money is on its way.";
        ScriptTurn::text(json!({"verdict": "refund", "refund": refund, "message": message}).to_string())
    };
    let turns =
        [ScriptTurn::call("look_up_order", json!({"order": "A-17"})), decision(json!("49.00")), decision(json!(4900))];
    Ok(Bench::new(Script::new(turns)).run(QUESTION))
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
