//! How a model can be brought to answer in a given shape.

use super::{Feature, FeatureSource, FeatureStatus, Profile};
use crate::probe::ToolAnswer;
use placet_core::OutputStrategy;
use std::collections::BTreeMap;

impl Profile {
    /// How each way to an answer in a given shape stands. It follows from the features: what holds the model to a schema, and
    /// whether it calls tools, and can be made to. Reading its text works with every model.
    #[must_use]
    pub fn output_strategies(&self) -> BTreeMap<OutputStrategy, Feature> {
        OutputStrategy::ALL.into_iter().map(|strategy| (strategy, self.output_strategy(strategy))).collect()
    }

    /// How one of them stands.
    #[must_use]
    pub fn output_strategy(&self, strategy: OutputStrategy) -> Feature {
        let of_field = |field: &str| self.feature(field).cloned().unwrap_or_default();
        match strategy {
            OutputStrategy::ProviderNative => Feature { values: Vec::new(), ..of_field("output.strict") },
            OutputStrategy::FinalizerTool => {
                let found_none = self.tools.is_some_and(|tools| tools != ToolAnswer::Native);
                let tool = of_field("tool");
                if tool.status == FeatureStatus::Unsupported {
                    return tool;
                }
                if found_none {
                    let reason = Some("it was asked, and answers no native tool calls".to_owned());
                    let source = FeatureSource::Discovered;
                    return Feature { status: FeatureStatus::Unsupported, reason, values: Vec::new(), source };
                }
                // Without being made to, it may as well answer in words.
                let forced = of_field("tool_choice.tool");
                match forced.status {
                    FeatureStatus::Supported => tool,
                    _ => Feature { status: FeatureStatus::Conditional, values: Vec::new(), ..forced },
                }
            }
            OutputStrategy::PosthocParse | OutputStrategy::PosthocParseWithRetry => Feature::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;
    use crate::adapter::AdapterOptions;
    use crate::credential::Lookup;
    use crate::vendor::vendor;
    use std::sync::Arc;

    fn profile(id: &str, model: &str) -> Profile {
        let none: Lookup = Arc::new(|_| None);
        AdapterOptions::of_vendor(vendor(id).unwrap(), &none).unwrap().profile(model)
    }

    #[test]
    fn ways_to_a_shape_follow_from_what_a_model_can() {
        use FeatureStatus::{Conditional, Supported, Unsupported};
        for (id, model, wanted) in [
            ("openai", "gpt-5.4", [Supported, Supported]),
            ("anthropic", "claude-opus-5-5", [Supported, Supported]),
            // It always thinks, and cannot be made to call a tool then.
            ("anthropic", "claude-fable-5-1", [Supported, Conditional]),
            ("deepseek", "deepseek-chat", [Unsupported, Supported]),
            ("ollama", "llama3.2", [Supported, Conditional]),
        ] {
            let all = profile(id, model).output_strategies();
            let found = [OutputStrategy::ProviderNative, OutputStrategy::FinalizerTool].map(|way| all[&way].status);
            assert_eq!(found, wanted, "{id}:{model}");
            assert_eq!(all[&OutputStrategy::PosthocParse].status, Supported);
            assert_eq!(all[&OutputStrategy::PosthocParseWithRetry].status, Supported);
            let refused = all.values().filter(|feature| feature.status != Supported);
            assert!(refused.clone().all(|feature| feature.reason.is_some()), "{id}:{model}");
        }
    }

    #[test]
    fn what_a_probe_found_counts() {
        let mut talker = profile("vllm", "mine");
        assert_eq!(talker.output_strategy(OutputStrategy::FinalizerTool).status, FeatureStatus::Supported);
        talker.tools = Some(ToolAnswer::None);
        let told = talker.output_strategy(OutputStrategy::FinalizerTool);
        assert_eq!((told.status, told.source), (FeatureStatus::Unsupported, FeatureSource::Discovered));
    }
}
