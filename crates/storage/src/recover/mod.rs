//! Opening a partition: what is there, how far it can be trusted, and what is done about it.
//!
//! | step | file |
//! | --- | --- |
//! | the directory is listed, the manifest read | `survey` |
//! | the log's end is walked, what stands behind damage is searched | `walk`, `resync` |
//! | the facts have one row in a table, which says what to do | `table` |
//! | it is done, and made durable | `act`, `rewrite`, `quarantine`, `create` |
//! | what was found and done is told | `report` |
//!
//! Every step is idempotent and leaves a state that the next attempt reads the same way: cuts are
//! synced before the mark moves, and the mark is the last thing that changes. A partition that was
//! closed is opened without a write.

mod act;
mod create;
mod quarantine;
mod report;
mod resync;
mod rewrite;
mod survey;
mod table;
mod walk;

pub use report::{OpenDamage, OpenReport};

use corelog_io::{Disk, Platform};

use crate::partition::Opened;
use crate::{LogConfig, OpenError, Place, Shared};
use survey::Survey;
use table::{Behind, Facts, Stop};

pub(crate) async fn open<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
) -> Result<(Opened<P>, OpenReport), OpenError> {
    let disk = shared.platform().disk();
    let mut survey = Survey::take(disk, place).await?;
    let mut report = OpenReport { ignored: survey.ignored.clone(), ..OpenReport::default() };
    if survey.is_new {
        let place_of_stop = survey.against(false);
        let nothing = Facts { stop: Stop::Missing, place: place_of_stop, behind: Behind::Nothing };
        let row = table::decide(nothing);
        (report.row, report.why, report.created) = (row.name, row.why, true);
        return Ok((create::create(shared, place, config, survey.listed).await?, report));
    }
    if let Some(marker) = survey.marker.as_mut().filter(|marker| marker.is_first()) {
        // Whoever stored it may have been killed before it was durable, and without it a power cut
        // would make the log look like another server's. A mark that lags is always allowed: where
        // this fails, the next one makes up for it.
        let mark = marker.mark();
        if marker.adopted_end() > 0 {
            // Nor was its name, perhaps. (Of a partition that is created it is, before its content is.)
            disk.sync_dir(&place.dir).await?;
        }
        let _ = marker.store(shared, mark).await;
    }
    if survey.manifest_damaged {
        report.damage.push(OpenDamage::Manifest);
    }
    if survey.quarantine {
        quarantine::settle(disk, place).await?;
    }
    report.adopted = survey.marker.is_none();
    report.left = quarantine::remove_leftovers(disk, place, &survey.leftovers).await?;
    let walked = walk::walk(disk, place, config, &survey, &mut report).await?;
    act::act(shared, place, config, survey, walked, report).await
}
