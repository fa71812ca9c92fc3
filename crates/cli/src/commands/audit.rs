//! `placet audit`: whether journals are what was written.

use crate::args::AuditCommand;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::output::{Tone, printable};
use crate::render::plural;
use placet_observe::{verify, verify_all};

pub(crate) async fn audit(house: &House, command: &AuditCommand) -> Done {
    let AuditCommand::Verify { run } = command;
    let store = house.existing_store().await?;
    let found = match run {
        Some(given) => vec![verify(&*store, &house.tenant, &house.find_run(&store, given).await?).await?],
        None => verify_all(&*store, &house.tenant).await?,
    };
    let output = &house.output;
    let unsound = found.iter().filter(|one| !one.is_sound()).count();
    if output.json {
        found.iter().for_each(|one| output.json_line(one));
    } else {
        for one in &found {
            let verdict = match (one.is_sound(), one.ended) {
                (true, true) => output.paint(Tone::Good, "sound"),
                (true, false) => output.paint(Tone::Good, "sound, not ended"),
                (false, _) => output.paint(Tone::Bad, "NOT SOUND"),
            };
            output.line(&format!("{}  {}  {verdict}", printable(&one.run), plural(one.records, "record")));
            if let Some(last) = &one.last {
                // Whoever keeps this elsewhere can tell later that nothing was cut off the end.
                output
                    .line(&output.paint(Tone::Quiet, &format!("  last record {} has hash {}", last.number, last.hash)));
            }
            for problem in &one.problems {
                output.line(&format!("  {}", printable(&problem.to_string())));
            }
        }
        output.line(&format!("{} verified, {unsound} not sound", plural(found.len() as u64, "journal")));
    }
    if unsound == 0 { Ok(()) } else { Err(Failure::told(Code::NotVerified)) }
}
