//! `placet tools`: what an agent would be handed, and how each provider is told of it.

use crate::args::{ToolForm, ToolsArgs};
use crate::failure::{Code, Done, Failure};
use crate::grants::Launch;
use crate::house::House;
use crate::output::Tone;
use placet_core::Effect;
use placet_tools::{Registry, ToolSet};

pub(crate) async fn tools(house: &House, args: &ToolsArgs) -> Done {
    let output = &house.output;
    let grants = Launch::new(&args.grants)?.grants(house)?;
    if let Some(form) = args.form {
        let set = ToolSet::new(grants);
        let shown = match form {
            ToolForm::Anthropic => set.to_anthropic(),
            ToolForm::OpenaiResponses => set.to_openai_responses(),
            ToolForm::OpenaiChat => set.to_openai_chat(),
            ToolForm::Gemini => set.to_gemini(),
            ToolForm::Mcp => set.to_mcp(),
        };
        let shown = shown.map_err(|errors| Failure::new(Code::Usage, errors.to_string()))?;
        if output.json {
            output.json_line(&shown);
        } else {
            output.line(&format!("{shown:#}"));
        }
        return Ok(());
    }
    let registry = Registry::assemble(grants).map_err(|errors| Failure::new(Code::Usage, errors.to_string()))?;
    if output.json {
        registry.grant_records().iter().for_each(|grant| output.json_line(grant));
        if let Some(instructions) = registry.instructions() {
            output.json_line(&serde_json::json!({ "instructions": instructions }));
        }
        return Ok(());
    }
    if registry.definitions().is_empty() {
        output.line("Nothing is granted, so an agent could only talk.");
        output.note("hint: hand something over, for example --files . or --calculator");
        return Ok(());
    }
    for grant in registry.grant_records() {
        output.line(&output.paint(Tone::Strong, grant.capability.as_str()));
        for tool in &grant.tools {
            let effect = match tool.effect {
                Effect::Read => "reads",
                Effect::Idempotent => "changes, repeatable",
                Effect::Once => "changes, once",
            };
            output.line(&format!("  {} {}", tool.name, output.paint(Tone::Quiet, &format!("({effect})"))));
            output.line(&format!("    {}", tool.description.replace('\n', "\n    ")));
        }
    }
    if let Some(instructions) = registry.instructions() {
        output.line(&output.paint(Tone::Strong, "instructions"));
        output.line(&format!("  {}", instructions.replace('\n', "\n  ")));
    }
    Ok(())
}
