//! `offline` on real files: random folders, the tools renamed, nothing granted; its answers against ones worked out here.

use placet::core::env::{Random, SeededRandom};
use placet::core::{Arguments, ToolDefinition};
use placet::tools::{AnyArguments, CallContext, Definition};
use placet::workspace::{Files, FilesOptions, calculator};
use placet::{Env, Grant, RunResult, ToolError, ToolOutput, ToolSet};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A folder with random text files, and how many lines each has.
struct Folder {
    root: tempfile::TempDir,
    lines: BTreeMap<String, usize>,
}

impl Folder {
    fn new(seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        let below = |bound: u64| random.next_u64() % bound;
        let root = tempfile::tempdir().unwrap();
        let mut lines = BTreeMap::new();
        for number in 0..3 + below(20) {
            let directory = ["", "src/", "src/deep/er/", "docs/"][below(4) as usize];
            let ending = ["rs", "md", "txt"][below(3) as usize];
            let path = format!("{directory}file{number}.{ending}");
            // Distinct counts, so that "the longest" has one answer.
            let count = (number as usize) * 7 + below(7) as usize;
            let text: String = (0..count).map(|line| format!("line {line} of {number}\n")).collect();
            std::fs::create_dir_all(root.path().join(&path).parent().unwrap()).unwrap();
            std::fs::write(root.path().join(&path), text).unwrap();
            lines.insert(path, count);
        }
        Folder { root, lines }
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn of(&self, ending: &str) -> Vec<(&str, usize)> {
        let mut files: Vec<_> = self.lines.iter().map(|(path, count)| (path.as_str(), *count)).collect();
        files.retain(|(path, _)| path.ends_with(ending));
        files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        files
    }
}

/// The shipped tools under names that say nothing: a model that goes by names is lost.
fn renamed(env: &Env, folder: &Folder, seed: u64) -> Vec<Grant> {
    let files = Arc::new(Files::open(env, folder.path(), FilesOptions::new().writable()).unwrap());
    let set = Arc::new(ToolSet::new([Grant::from(files.capability()), Grant::from(calculator())]));
    let definitions: Vec<ToolDefinition> = set.definitions().unwrap().iter().map(|one| (**one).clone()).collect();
    let rename = |(number, original): (usize, ToolDefinition)| {
        let (set, name) = (set.clone(), original.name.clone());
        let definition = ToolDefinition {
            name: format!("t{}", seed.wrapping_mul(31).wrapping_add(number as u64 * 17) % 1_000_003).into(),
            description: "Does something.".into(),
            ..original
        };
        let handler = move |arguments: AnyArguments, cx: placet::ToolContext| {
            let (set, name) = (set.clone(), name.clone());
            async move {
                let call = placet::core::ToolCall {
                    id: cx.env().new_id(),
                    provider_id: None,
                    name,
                    arguments: Arguments::from_value(&arguments.into()),
                    native: None,
                };
                let result =
                    set.run(&call, CallContext::new(cx.env())).await.map_err(|e| ToolError::failed(e.to_string()))?;
                let outcome = result.outcome;
                if outcome.status != placet::core::Status::Completed {
                    return Err(ToolError::refused(outcome.text()));
                }
                let mut output = ToolOutput::text(outcome.text());
                output.cut = outcome.cut;
                Ok(output)
            }
        };
        Grant::tool(Definition::from(definition).bind(handler))
    };
    definitions.into_iter().enumerate().map(rename).collect()
}

async fn ask(question: &str, grants: Vec<Grant>) -> RunResult {
    let runtime = placet::in_memory();
    let run =
        grants.into_iter().fold(runtime.run("offline:offline").input(question), placet::runtime::RunBuilder::grant);
    run.await.unwrap()
}

#[tokio::test]
async fn its_answers_are_those_worked_out_by_hand_whatever_the_tools_are_called() {
    for seed in 0..12 {
        let folder = Folder::new(seed);
        let env = Env::system();
        let said = async |question: &str| ask(question, renamed(&env, &folder, seed)).await.text;

        let rust = folder.of(".rs");
        let answer = said("Which Rust files are the longest?").await;
        // In the order of their lengths, each with its own.
        let mut rest = answer.as_str();
        for (path, count) in rust.iter().take(10) {
            let at = rest.find(path).unwrap_or_else(|| panic!("seed {seed}: {path} is not in its place in {answer}"));
            rest = &rest[at + path.len()..];
            let line = rest.lines().next().unwrap();
            assert!(line.contains(&count.to_string()), "seed {seed}: {count} lines in {path}: {answer}");
        }

        let count = folder.of(".md").len();
        let answer = said("How many .md files are there?").await;
        assert!(numbers(&answer).contains(&count) || count == 0, "seed {seed}: {count} files: {answer}");

        if let Some((path, count)) = folder.of("").first() {
            let answer = said(&format!("How many lines are in {path}?")).await;
            assert!(numbers(&answer).contains(count), "seed {seed}: {count} lines in {path}: {answer}");
        }

        let product = (seed + 13) * 29;
        let answer = said(&format!("What is {} * 29?", seed + 13)).await;
        assert!(answer.contains(&product.to_string()), "seed {seed}: {answer}");

        said("write 'kept by seed' to notes/new.txt").await;
        let written = std::fs::read_to_string(folder.path().join("notes/new.txt")).unwrap();
        assert_eq!(written.trim_end(), "kept by seed");
    }
}

#[tokio::test]
async fn with_nothing_granted_it_asks_for_nothing_and_says_what_it_lacks() {
    let folder = Folder::new(1);
    for question in ["Which Rust files are the longest?", "How many .md files are there?", "What is 6 * 7?"] {
        let result = ask(question, Vec::new()).await;
        assert_eq!(result.rounds, 0);
        assert!(!result.text.contains("42"), "{}", result.text);
        assert!(folder.lines.keys().all(|path| !result.text.contains(path.as_str())), "{}", result.text);
        assert!(result.text.to_lowercase().contains("tool"), "{question}: {}", result.text);
    }
}

/// The whole numbers of a text.
fn numbers(text: &str) -> Vec<usize> {
    text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[tokio::test]
async fn a_runtime_from_the_environment_knows_the_real_providers() {
    let runtime = placet::from_environment().unwrap();
    let known: Vec<&str> = runtime.providers().map(|provider| provider.id().as_str()).collect();
    for id in ["offline", "openai", "anthropic", "google"] {
        assert!(known.contains(&id), "{id} is not among {known:?}");
    }
    assert!(!placet::in_memory().providers().any(|provider| provider.id().as_str() == "openai"));
}
