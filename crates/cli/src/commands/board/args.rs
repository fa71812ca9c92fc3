//! The command line of `placet board`.

use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Which boards are meant.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// The server that holds the boards, for example http://127.0.0.1:8090/v1 [default: the store of --home or --store]
    #[arg(long = "at", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file with the token to show to that server
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BoardCommand {
    /// Serve boards over HTTP, under /v1/boards
    Serve(ServeArgs),
    /// Show which boards there are
    List(ListArgs),
    /// Open a board, or add regions to it
    Create(CreateArgs),
    /// Write to a level
    Write(WriteArgs),
    /// Set a premise, if it is still at the expected version
    Set(SetArgs),
    /// Read a level, a premise, or everything
    Read(ReadArgs),
    /// Show everything that is written, as it comes
    Tail(TailArgs),
    /// Register an agent that asks for its notifications by itself, or is called at an address
    Register(RegisterArgs),
    /// Show the agents and how far each is
    Agents(BoardArgs),
    /// Acknowledge a notification under an agent's name
    Ack(AckArgs),
    /// Close the run of a board; it stays readable
    Close(CloseArgs),
    /// Open a closed run again
    Reopen(ReopenArgs),
    /// Show what was decided, and why
    Decisions(DecisionsArgs),
    /// Print everything that was written, as JSON lines
    Export(BoardArgs),
    /// Delete a board and everything on it
    Delete(BoardArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// A JSON file of tokens: a list of {"sha256": "…", "agents": […], "boards": […], "regions": […], "manages": true}
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Let agents be called at this host although it is not a public one (may be repeated)
    #[arg(long, value_name = "HOST")]
    pub(crate) call_host: Vec<String>,
    /// A file with the secret that calls of agents and rules are signed with
    #[arg(long, value_name = "FILE")]
    pub(crate) signing_key: Option<PathBuf>,
    /// A name that clients may use for this machine in `Host` (may be repeated); others get 421
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Keep boards in memory only
    #[arg(long)]
    pub(crate) memory: bool,
    /// Answer also what tests of other implementations ask for: namespaces under /t/NAME. Never on a network
    #[arg(long, hide = true)]
    pub(crate) test_mode: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Those after this one
    #[arg(long, value_name = "BOARD")]
    pub(crate) after: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct BoardArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// A level (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) level: Vec<String>,
    /// A premise and its opening value: NAME=JSON (may be repeated)
    #[arg(long, value_name = "NAME=JSON")]
    pub(crate) premise: Vec<String>,
    /// Everything else, as JSON: {"regions", "premises", "agents", "limits", "rules"}; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,
    /// How long the run may last, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wall_clock: Option<f64>,
    /// After how much silence it settles, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) idle: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// The level
    pub(crate) level: String,
    /// What to write: JSON, or a text that is no JSON; `-` reads standard input
    pub(crate) content: String,
    /// Under which name
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) writer: String,
    /// Names the write, so that repeating it changes nothing
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// The premise
    pub(crate) premise: String,
    /// The value: JSON, or a text that is no JSON; `-` reads standard input
    pub(crate) value: String,
    /// The version that it is expected to be at
    #[arg(long, value_name = "VERSION")]
    pub(crate) expect: u64,
    /// Under which name
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) writer: String,
    /// Names the write, so that repeating it changes nothing
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// The region; everything where none is named
    pub(crate) region: Option<String>,
    /// From this sequence number on
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// At most so many entries [default: all]
    #[arg(long)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// From this sequence number on
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// The agent
    pub(crate) agent: String,
    /// A region that wakes it (may be repeated) [default: every premise]
    #[arg(long, value_name = "REGION")]
    pub(crate) subscribe: Vec<String>,
    /// A level that it may write to (may be repeated) [default: every level]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) writes_to: Vec<String>,
    /// A premise that it may set (may be repeated) [default: every premise]
    #[arg(long, value_name = "PREMISE")]
    pub(crate) sets: Vec<String>,
    /// Where it is called
    #[arg(long, value_name = "URL")]
    pub(crate) address: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AckArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// The agent
    pub(crate) agent: String,
    /// The notification
    pub(crate) notification: u64,
}

#[derive(Debug, Args)]
pub(crate) struct CloseArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// Why
    #[arg(long, default_value = "closed by hand")]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct ReopenArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// How long the run may last, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wall_clock: Option<f64>,
    /// After how much silence it settles, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) idle: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct DecisionsArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The board
    pub(crate) board: String,
    /// After the decision of this number
    #[arg(long, default_value_t = 0)]
    pub(crate) after: u64,
}
