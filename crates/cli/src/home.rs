//! Where runs are kept: `--home`, else `PLACET_HOME`, else the platform's folder for programs' data.

use crate::failure::{Code, Failure};
use crate::vars;
use std::path::{Path, PathBuf};

/// The name of the store's file in the home folder.
pub(crate) const STORE_FILE: &str = "placet.db";

/// The home folder, which need not exist yet.
pub(crate) fn locate(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given.map(Path::to_owned).or_else(|| vars::var(vars::PLACET_HOME).map(PathBuf::from)) {
        return Ok(given);
    }
    platform(&vars::var).ok_or_else(|| {
        Failure::new(Code::Failed, "there is no folder to keep runs in: HOME is not set")
            .hint(format!("name one with --home DIR or {}", vars::PLACET_HOME))
    })
}

fn platform(var: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let home = || var(vars::HOME).map(PathBuf::from);
    if cfg!(target_os = "macos") {
        return home().map(|home| home.join("Library/Application Support/placet"));
    }
    // The XDG rule: a relative path there is to be ignored.
    let data = var(vars::XDG_DATA_HOME).map(PathBuf::from).filter(|path| path.is_absolute());
    data.or_else(|| home().map(|home| home.join(".local/share"))).map(|data| data.join("placet"))
}

/// Makes the folder, readable by its owner only: journals hold what agents read.
pub(crate) fn ensure(home: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(home).map_err(|error| {
        Failure::new(Code::Failed, format!("the folder {} cannot be made: {error}", home.display()))
            .hint("name another one with --home DIR")
    })
}

/// A store is a file: opening a folder would be tried again and again, as if somebody else held it.
pub(crate) fn is_no_folder(store: &Path) -> Result<(), Failure> {
    if store.is_dir() {
        return Err(Failure::new(Code::Failed, format!("{} is a folder, expected the store's file", store.display()))
            .hint("name another place, or move the folder away"));
    }
    Ok(())
}

/// Whether runs can be kept there, tried out in the nearest folder that exists; nothing is left behind.
pub(crate) fn can_be_made(home: &Path) -> Result<(), Failure> {
    let there = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let nearest = home.ancestors().find(there).filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let trial = nearest.join(format!(".placet-trial-{}", std::process::id()));
    let tried = std::fs::create_dir(&trial).and_then(|()| std::fs::remove_dir(&trial));
    tried.map_err(|error| {
        Failure::new(Code::Failed, format!("runs cannot be kept in {}: {}: {error}", home.display(), nearest.display()))
            .hint("name another folder with --home DIR")
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn the_platforms_folder_follows_the_xdg_rules() {
        let at = |data: Option<&str>, home: Option<&str>| {
            let (data, home) = (data.map(str::to_owned), home.map(str::to_owned));
            platform(&move |name| match name {
                vars::XDG_DATA_HOME => data.clone(),
                vars::HOME => home.clone(),
                _ => None,
            })
        };
        assert_eq!(at(Some("/data"), Some("/home/a")), Some("/data/placet".into()));
        assert_eq!(at(Some("relative"), Some("/home/a")), Some("/home/a/.local/share/placet".into()));
        assert_eq!(at(None, Some("/home/a")), Some("/home/a/.local/share/placet".into()));
        assert_eq!(at(None, None), None);
    }
}
