//! The command line as it is typed. What it means is worked out in [`crate::settings`].

use crate::commands::board::args::BoardCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use placet_wire::protocol::Protocol;
use std::path::PathBuf;
use std::time::Duration;

/// The model asks; your code decides.
///
/// Runs AI agents that can do nothing but what you hand them, and writes down what they did.
#[derive(Debug, Parser)]
#[command(name = "placet", version, max_term_width = 110, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    it went wrong: the message says what and what to do
  2    the command line is wrong
  3    a limit was reached; everything so far is kept
  4    what was named does not exist
  5    somebody else holds it, or it is not in a state for that
  6    a journal does not verify
  130  cancelled";

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print JSON (one object a line where things happen one after another)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where runs are kept [default: PLACET_HOME, else the platform's data folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Keep runs in this PostgreSQL database instead of a file: postgres://user@host/database [default: PLACET_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Colour the output
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask an agent, and watch it work
    Run(RunArgs),
    /// Look at runs: what they did, and go on with one that stopped
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Check that journals have not been altered
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Blackboards: one ordered record that many agents read and write
    #[command(subcommand)]
    Board(BoardCommand),
    /// Show the tools that an agent would be handed, in any provider's form
    Tools(ToolsArgs),
    /// Models: which there are, what they can and cost, and how they call tools
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Look at this machine: store, models, sandbox
    Doctor(DoctorArgs),
    /// Serve models to any client: a gateway that speaks every provider's protocol
    Serve(ServeArgs),
    /// Check a configuration, and say everything that is wrong with it
    Check(CheckArgs),
    /// Make keys for the gateway
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Read what went over the wire in any provider's protocol, or translate it into another
    #[command(subcommand)]
    Wire(WireCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to ask; `-` reads it from standard input
    pub(crate) question: String,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) grants: GrantArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// What to tell the model before everything else
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
    /// Name the run yourself: `run_` and up to 64 letters, digits, `-`, `_`, `.`
    #[arg(long, value_name = "RUN")]
    pub(crate) id: Option<String>,
}

/// The shape that the answer must have.
#[derive(Debug, Args)]
pub(crate) struct ShapeArgs {
    /// Make the answer JSON of this JSON Schema, and print nothing else to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// How the model is brought to it [default: the surest way that it can]
    #[arg(long, value_name = "WAY", requires = "output_schema")]
    pub(crate) output_strategy: Option<OutputWay>,
    /// How often a model that missed it is told so and asked again
    #[arg(long, value_name = "N", requires = "output_schema", default_value_t = 1)]
    pub(crate) output_repairs: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum OutputWay {
    /// Its provider holds it to the schema
    ProviderNative,
    /// It calls a tool whose arguments are the answer
    FinalizerTool,
    /// Its text is read as JSON, once
    PosthocParse,
    /// The same, and it is told what is wrong and asked again
    PosthocParseWithRetry,
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model: `provider:model`, for example `openai:gpt-5.4`, `ollama:llama3.2`, `scripted:turns.json`, `offline`
    /// [default: PLACET_MODEL, else what is found]
    #[arg(long, short, value_name = "REF")]
    pub(crate) model: Option<String>,
    /// The base URL of an OpenAI-compatible server, for example http://127.0.0.1:8000/v1
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Sampling temperature
    #[arg(long, value_name = "NUMBER", value_parser = parse_temperature)]
    pub(crate) temperature: Option<f64>,
    /// The most tokens of one answer
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_output_tokens: Option<u64>,
}

/// What the agent is handed. With none of these it can do nothing but talk.
#[derive(Debug, Args, Default, Clone)]
pub(crate) struct GrantArgs {
    /// Let it list, find, search and read files under DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Let it also write, edit and delete files there
    #[arg(long, requires = "files")]
    pub(crate) writable: bool,
    /// Let it run commands in the folder of --files (or here): `ask` asks you each time, `unsandboxed` does not
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "ask")]
    pub(crate) command: Option<CommandGrant>,
    /// Let commands be shell lines, not only programs with arguments
    #[arg(long, requires = "command")]
    pub(crate) shell: bool,
    /// Let it calculate
    #[arg(long)]
    pub(crate) calculator: bool,
    /// Show the model secrets that tools come across, instead of `[redacted]`
    #[arg(long)]
    pub(crate) no_redaction: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommandGrant {
    /// Ask on the terminal, each time
    Ask,
    /// Run without asking, in no sandbox but a clean environment, limits and a process group
    Unsandboxed,
}

#[derive(Debug, Args, Default, Clone)]
pub(crate) struct LimitArgs {
    /// Rounds of tool calls [default: 8]
    #[arg(long, value_name = "N")]
    pub(crate) max_rounds: Option<u32>,
    /// Time, for example 90s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) max_time: Option<Duration>,
    /// Tokens, input and output together
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_tokens: Option<u64>,
    /// US dollars; needs a price, from the catalog or from --price
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<String>,
    /// US dollars per million tokens: input,output or input,output,cached-input [default: what is known of the model]
    #[arg(long, value_name = "PRICES")]
    pub(crate) price: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, the latest first
    List {
        /// How many
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// Show what a run did
    Show(RunRef),
    /// Watch a run that another process drives
    Follow {
        #[command(flatten)]
        run: RunRef,
        /// Begin after this cursor, for example 4
        #[arg(long, default_value = "0", value_name = "CURSOR")]
        from: String,
    },
    /// Go on with a run that stopped; nothing that is recorded is asked or done again
    Resume(ResumeArgs),
    /// Rebuild a run's answer from its journal, calling no model and no tool
    Replay(RunRef),
    /// Show where two runs part
    Diff {
        /// The one
        a: String,
        /// The other
        b: String,
    },
    /// Write a run's journal as JSON lines
    Export {
        #[command(flatten)]
        run: RunRef,
        /// Into this file instead of standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunRef {
    /// The run's id, the start of it, or `last`
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) run: RunRef,
    /// The base URL of an OpenAI-compatible server, if it has changed
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check the hash chain of one run, or of all, and that every start has one end
    Verify {
        /// The run's id, the start of it, or `last` [default: all runs]
        run: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(flatten)]
    pub(crate) grants: GrantArgs,
    /// Print the definitions as this provider is sent them
    #[arg(long, value_name = "FORM")]
    pub(crate) form: Option<ToolForm>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolForm {
    Anthropic,
    OpenaiResponses,
    OpenaiChat,
    Gemini,
    Mcp,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models that are known, or those that a server says it has
    List {
        /// Only those of this provider
        #[arg(long, short, value_name = "PROVIDER")]
        provider: Option<String>,
        /// Ask the provider's server, in place of the catalog
        #[arg(long, requires = "provider")]
        server: bool,
        /// Also those that make no answers (embeddings, pictures, sounds), and those that are gone
        #[arg(long)]
        all: bool,
        /// The base URL of the provider's server
        #[arg(long, value_name = "URL", requires = "provider")]
        base_url: Option<String>,
    },
    /// Show what is known of a model: life, limits, what it can and what it refuses
    Show {
        /// The model, for example openai:gpt-5.4
        #[arg(value_name = "REF")]
        model: String,
    },
    /// Show what a model costs, and reckon a cost
    Price {
        /// The model, for example openai:gpt-5.4
        #[arg(value_name = "REF")]
        model: String,
        /// Reckon with so many tokens of input
        #[arg(long, value_name = "TOKENS", default_value_t = 0)]
        input: u64,
        /// … and so many more that were read from a cache
        #[arg(long, value_name = "TOKENS", default_value_t = 0)]
        cached: u64,
        /// … and so many more that were written to a cache
        #[arg(long, value_name = "TOKENS", default_value_t = 0)]
        cache_write: u64,
        /// … and so many tokens of output
        #[arg(long, value_name = "TOKENS", default_value_t = 0)]
        output: u64,
        /// … served by this tier (batch, flex, priority …), where the model has a price for it
        #[arg(long, value_name = "TIER")]
        tier: Option<String>,
    },
    /// Ask a model how it calls tools (one or two short questions, which may cost something), and keep the answer
    Probe {
        /// The model, for example ollama:llama3.2
        #[arg(value_name = "REF")]
        model: String,
        /// The base URL of its server
        #[arg(long, value_name = "URL")]
        base_url: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration [default: PLACET_CONFIG, else placet.toml here, else what the environment knows]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Listen here instead of where the configuration says [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The configuration [default: PLACET_CONFIG, else placet.toml here, else what the environment knows]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key, and show it with what to write into placet.toml
    New {
        /// What to call it
        #[arg(default_value = "mine")]
        name: String,
    },
    /// Print the SHA-256 of a key from standard input
    Hash,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WireCommand {
    /// Print a request, an answer or a stream in Placet's own words, as JSON
    Decode {
        /// Its protocol: openai_responses, openai_chat, anthropic_messages or gemini
        #[arg(long, short, value_name = "PROTOCOL", value_parser = parse_protocol)]
        protocol: Protocol,
        /// Print each event of an answer on a line of its own, with its place in bytes, in place of the finished turn
        #[arg(long, conflicts_with = "request")]
        events: bool,
        #[command(flatten)]
        input: WireInput,
    },
    /// Print a request, an answer or a stream in another protocol, and on standard error what was left out
    Translate {
        /// The protocol it is in: openai_responses, openai_chat, anthropic_messages or gemini
        #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol)]
        from: Protocol,
        /// The protocol to print it in, one of the same four
        #[arg(long, value_name = "PROTOCOL", value_parser = parse_protocol)]
        to: Protocol,
        /// The model to name, in place of the one that is named (Gemini names it in the path, not in the body)
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
        /// Ask for the answer as a stream, where a request of Gemini (which says so in the path) is translated
        #[arg(long)]
        stream: bool,
        #[command(flatten)]
        input: WireInput,
    },
}

/// What is read, and what it is. Without one of the options it is taken for what it looks like.
#[derive(Debug, Args)]
pub(crate) struct WireInput {
    /// The file; `-` or none reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// It is a client's request
    #[arg(long, group = "form")]
    pub(crate) request: bool,
    /// It is an answer that came whole, or an error
    #[arg(long, group = "form")]
    pub(crate) response: bool,
    /// It is an answer as a stream of server-sent events
    #[arg(long, group = "form")]
    pub(crate) sse: bool,
}

fn parse_protocol(word: &str) -> Result<Protocol, String> {
    Protocol::parse(word).ok_or_else(|| {
        let known: Vec<&str> = Protocol::ALL.iter().map(|protocol| protocol.as_str()).collect();
        format!("{word:?} is no protocol: expected one of {}", known.join(", "))
    })
}

/// Reads a temperature: a number from 0 on.
fn parse_temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("{text:?} is no temperature: expected a number from 0 on, for example 0.7")),
    }
}

/// Reads `90s`, `5m`, `1h`, `250ms` or a plain number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: expected a whole number with ms, s, m or h, for example 90s");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    count.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, millis) in [("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000), ("250ms", 250), ("7", 7_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for text in ["", "s", "-1s", "1.5h", "3 days", "99999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_command_grant_is_ask_unless_it_says_otherwise() {
        let grant = |line: &str| match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Command::Run(run)) => Some(run.grants.command),
            _ => None,
        };
        assert_eq!(grant("placet run q"), Some(None));
        assert_eq!(grant("placet run q --command"), Some(Some(CommandGrant::Ask)));
        assert_eq!(grant("placet run --command q"), Some(Some(CommandGrant::Ask)));
        assert_eq!(grant("placet run q --command=unsandboxed"), Some(Some(CommandGrant::Unsandboxed)));
        assert_eq!(grant("placet run q --command=yes"), None);
        assert_eq!(grant("placet run q --writable"), None, "there is nothing to write in");
    }
}
