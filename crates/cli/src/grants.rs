//! What an agent of this program is handed: from the command line, and again from a run's start record.

use crate::args::{CommandGrant, GrantArgs};
use crate::failure::{Code, Failure};
use crate::house::House;
use crate::vars;
use placet_tools::Grant;
use placet_workspace::{Approval, CommandOptions, Commands, Files, FilesOptions, calculator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a run was started with, as far as the run's own record does not say it: kept there, so that `placet runs resume`
/// can build the same grants again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Launch {
    /// The folder of the files capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) writable: bool,
    /// `ask` or `unsandboxed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The folder that commands start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shell: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) calculator: bool,
    /// The base URL of the model's server, whoever said it: a resumed run must ask the same one. Holds no credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
}

impl Launch {
    /// From the command line. Folders become absolute: the run may be resumed from anywhere.
    pub(crate) fn new(args: &GrantArgs) -> Result<Self, Failure> {
        let files = args.files.as_deref().map(absolute).transpose()?;
        let command_dir = match (&args.command, &files) {
            (None, _) => None,
            (Some(_), Some(folder)) => Some(folder.clone()),
            (Some(_), None) => Some(absolute(Path::new("."))?),
        };
        Ok(Launch {
            files,
            writable: args.writable,
            command: args.command.map(|how| how_word(how).to_owned()),
            command_dir,
            shell: args.shell,
            calculator: args.calculator,
            base_url: None,
        })
    }

    pub(crate) fn to_map(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    pub(crate) fn from_map(map: &Map<String, Value>) -> Result<Self, Failure> {
        serde_json::from_value(Value::Object(map.clone())).map_err(|error| {
            Failure::new(Code::Failed, format!("the run's launch options cannot be read: {error}"))
                .hint("it was started by another program than this one; resume it there")
        })
    }

    /// The grants, in their fixed order: files, command, calculator.
    pub(crate) fn grants(&self, house: &House) -> Result<Vec<Grant>, Failure> {
        let mut grants = Vec::new();
        if let Some(folder) = &self.files {
            let files = self.open(house, folder, self.writable)?;
            grants.push(files.capability().into());
        }
        if let (Some(how), Some(folder)) = (&self.command, &self.command_dir) {
            let approval = match how.as_str() {
                UNSANDBOXED => Approval::Unsandboxed,
                // Whatever else an older or newer version wrote: asking is the safe reading.
                _ => Approval::Ask,
            };
            let mut options = CommandOptions::new().approval(approval).redactor(house.redactor.clone());
            // Programs are looked for where the person's shell looks for them; nothing else of the environment goes in.
            if let Some(path) = vars::var(vars::PATH) {
                options = options.path(path);
            }
            if self.shell {
                options = options.shell();
            }
            let commands = Commands::new(self.open(house, folder, self.writable)?, options)?;
            grants.push(commands.capability().into());
        }
        if self.calculator {
            grants.push(calculator().into());
        }
        Ok(grants)
    }

    fn open(&self, house: &House, folder: &Path, writable: bool) -> Result<Arc<Files>, Failure> {
        let options = FilesOptions::new().redactor(house.redactor.clone());
        let options = if writable { options.writable() } else { options };
        Ok(Arc::new(Files::open(&house.env, folder, options)?))
    }
}

/// The word of `--command=unsandboxed` in a start record.
const UNSANDBOXED: &str = "unsandboxed";

fn how_word(how: CommandGrant) -> &'static str {
    match how {
        CommandGrant::Ask => "ask",
        CommandGrant::Unsandboxed => UNSANDBOXED,
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path).map_err(|error| {
        Failure::new(Code::Usage, format!("{} cannot be handed over: {error}", path.display()))
            .hint("name a folder that exists")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn launch_options_survive_the_start_record() {
        let launch = Launch {
            files: Some("/data".into()),
            writable: true,
            command: Some("ask".into()),
            command_dir: Some("/data".into()),
            shell: true,
            calculator: true,
            base_url: Some("http://127.0.0.1:1/v1".into()),
        };
        assert_eq!(Launch::from_map(&launch.to_map()).ok(), Some(launch));
        assert!(Launch::default().to_map().is_empty());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let args = GrantArgs { files: Some("/no/such/folder".into()), ..GrantArgs::default() };
        let failure = Launch::new(&args).expect_err("there is no such folder");
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.message.unwrap().contains("/no/such/folder"));
    }
}
