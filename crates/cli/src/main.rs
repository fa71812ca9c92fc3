//! The program `placet`: agents that can do nothing but what they are handed, on the command line.
//!
//! [`args`] is the command line as typed; each command is a file in [`commands`]; [`output`] is the one place that
//! prints, [`vars`] the one that reads the environment; a command that cannot do what was asked ends with a
//! [`failure::Failure`], which carries the exit code.

mod approver;
mod args;
mod commands;
mod failure;
mod grants;
mod home;
mod house;
mod interrupt;
mod memory;
mod models;
mod output;
mod render;
mod vars;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use failure::{Code, Done, Failure};
use house::House;
use output::{Output, Tone};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error),
    };
    let output = output(&cli);
    // The run goes on beside the printing: a reader that stops reading must cost neither its lease nor its limits.
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return report(&output, Failure::new(Code::Failed, format!("the task runtime cannot start: {error}")));
        }
    };
    let done = runtime.block_on(dispatch(&cli));
    // A question on the terminal that nobody answered must not hold the program up.
    runtime.shutdown_background();
    match done {
        Ok(()) if output::failed().is_some() => {
            report(&output, Failure::new(Code::Failed, output::failed().unwrap_or_default()))
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report(&output, failure),
    }
}

fn output(cli: &Cli) -> Output {
    Output::new(cli.global.json, cli.global.color, vars::var(vars::NO_COLOR).is_some())
}

async fn dispatch(cli: &Cli) -> Done {
    if let Command::Completions { shell } = &cli.command {
        return completions(*shell);
    }
    if let Command::Wire(command) = &cli.command {
        // Nothing of the user's home is needed to look at a file.
        return commands::wire::wire(&output(cli), command);
    }
    if let Command::Check(args) = &cli.command {
        return commands::check::check(&output(cli), args);
    }
    let house = match (House::new(&cli.global), &cli.command) {
        (Err(failure), Command::Doctor(_)) => return commands::doctor::homeless(&cli.global, failure),
        (house, _) => house?,
    };
    match &cli.command {
        Command::Run(args) => commands::run::run(&house, args).await,
        Command::Runs(command) => commands::runs::runs(&house, command).await,
        Command::Audit(command) => commands::audit::audit(&house, command).await,
        Command::Board(command) => commands::board::board(&house, command).await,
        Command::Tools(args) => commands::tools::tools(&house, args).await,
        Command::Models(command) => commands::models::models(&house, command).await,
        Command::Doctor(args) => commands::doctor::doctor(&house, args).await,
        Command::Serve(args) => commands::serve::serve(&house, args).await,
        Command::Keys(command) => commands::keys::keys(&house, command),
        Command::Wire(_) | Command::Check(_) | Command::Completions { .. } => Ok(()),
    }
}

/// The command line is wrong, or asks for help.
fn not_understood(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json");
    if !error.use_stderr() || !wants_json {
        // Nobody is left to tell where it cannot be printed.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8));
    }
    let text = error.render().to_string();
    let message = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    let failure = Failure::new(Code::Usage, message.trim()).hint("`placet help` shows the commands and their options");
    report(&Output::new(true, args::ColorChoice::Never, true), failure)
}

fn completions(shell: clap_complete::Shell) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "placet", &mut script);
    Output::new(false, args::ColorChoice::Never, true).out(&String::from_utf8_lossy(&script));
    Ok(())
}

fn report(output: &Output, failure: Failure) -> ExitCode {
    let code = failure.code;
    if let Some(message) = &failure.message {
        if output.json {
            output.json_line(&serde_json::json!({
                "error": { "message": message, "hints": failure.hints, "exit_code": code as u8 }
            }));
        } else {
            output.note(&format!("{} {}", output.paint_note(Tone::Bad, "error:"), output::printable(message)));
            for hint in &failure.hints {
                output.note(&format!("{} {}", output.paint_note(Tone::Quiet, "hint:"), output::printable(hint)));
            }
        }
    }
    code.into()
}
