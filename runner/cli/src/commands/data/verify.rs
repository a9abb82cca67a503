//! `warpforge data verify`.

use warpforge_store::table::Dataset;
use warpforge_store::{Library, Standing};

use super::explain;
use crate::exit::Exit;
use crate::table::{self, Cell};
use crate::ui::{DIM, GREEN, RED, Ui, YELLOW};

pub fn run(datasets: &[&Dataset], library: &Library, ui: &mut Ui) -> anyhow::Result<Exit> {
    let mut exit = Exit::Pass;
    let mut rows = Vec::new();
    for dataset in datasets {
        for checked in library.verify(dataset).map_err(|error| explain(&error))? {
            let (word, style, remark) = match &checked.standing {
                Standing::Verified => ("verified", GREEN, String::new()),
                Standing::AsRecorded => {
                    ("as recorded", GREEN, "unknown digest recorded at first fetch".to_owned())
                }
                Standing::Recorded => {
                    ("recorded", YELLOW, "unknown digest recorded now".to_owned())
                }
                Standing::Missing => ("missing", YELLOW, String::new()),
                Standing::Wrong(why) => ("WRONG", RED, why.clone()),
            };
            // What is wrong is graver than what is not there.
            exit = match (exit, &checked.standing) {
                (Exit::Fail, _) | (_, Standing::Wrong(_)) => Exit::Fail,
                (_, Standing::Missing) => Exit::Skipped,
                (exit, _) => exit,
            };
            let word = Cell::styled(word, style);
            let mut row = vec![dataset.id.into(), checked.file.into(), word];
            if !remark.is_empty() {
                row.push(Cell::styled(remark, DIM));
            }
            rows.push(row);
        }
    }
    table::write(ui.out(), 0, &rows)?;
    Ok(exit)
}
