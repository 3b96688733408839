//! Objects as tables: the columns that `kubectl get` shows for each kind.
//!
//! ```text
//!   printer(group, kind) ─► Printer ─ columns ─┬─ name, type, priority: definition of the column
//!                                              └─ Cell: source of the cells
//!                                                   ├─ a field, a number, an age: data
//!                                                   └─ Special: a function of the object, in kinds/
//! ```
//!
//! Objects are JSON that has been decoded with their types: absent fields were never set. The current time is
//! a parameter.

mod cell;
mod fields;
mod format;
mod kinds;

use std::cmp::Ordering;

use atoll_meta::time::Timestamp;
use serde_json::Value;

pub use cell::Cell;
pub use kinds::printer;

/// A column definition and the source of its cells.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`. Cells may have another type, as upstream.
    pub kind: &'static str,
    /// `name` for the column with the name of the object.
    pub format: &'static str,
    pub description: &'static str,
    /// Columns with a priority above 0 are for wide output.
    pub priority: u8,
    pub cell: Cell,
}

/// The columns of a kind.
#[derive(Debug)]
pub struct Printer {
    pub columns: &'static [Column],
    /// A cell without a column, which upstream has by mistake.
    pub surplus: Option<Cell>,
    /// Returns the conditions of a row.
    pub conditions: fn(&Value) -> Option<Value>,
    /// The order of rows, if it is not by name.
    pub order: Option<fn(&Value, &Value) -> Ordering>,
    /// Whether columns are sent with each event of a watch, not only with the first.
    pub always_headed: bool,
    /// Whether the rows of an empty table are null instead of an empty list.
    pub null_when_empty: bool,
}

impl Printer {
    /// Returns the cells of an object's row.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let cells = self.columns.iter().map(|column| &column.cell).chain(&self.surplus);
        cells.map(|cell| cell.of(object, now)).collect()
    }
}
