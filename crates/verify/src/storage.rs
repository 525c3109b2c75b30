//! Pages and indexes, by what either database has to check them.

use hyperfleet_store::{InspectError, TextRow};

use crate::sql::{Dialect, quoted};
use crate::{Run, VerifyError};

/// The tables of which PostgreSQL counts the rows both ways.
const TABLES: [&str; 6] =
    ["resources", "resource_status", "reports", "changes", "resource_facets", "resource_references"];

const SQLITE_CHECK: &str = "pragma integrity_check(100)";

/// The roots of trees, by which SQLite names what is damaged.
const SQLITE_ROOTS: &str =
    "select rootpage, type || ' ' || name, tbl_name from sqlite_master where rootpage > 0";

const SQLITE_TREES: &str = "select type, name, tbl_name, sql from sqlite_master where rootpage > 0";

const POSTGRES_AMCHECK: &str = "select 1 from pg_extension where extname = 'amcheck'";

const POSTGRES_INDEXES: &str = "select i.indexrelid::regclass::text, t.relname
     from pg_index i
     join pg_class t on t.oid = i.indrelid
     join pg_class c on c.oid = i.indexrelid
     join pg_am a on a.oid = c.relam
     where a.amname = 'btree'
         and t.relnamespace = (select relnamespace from pg_class where oid = 'resource_status'::regclass)";

const BY_ITSELF: &str = "set local enable_indexscan = off; set local enable_indexonlyscan = off;
     set local enable_bitmapscan = off";
const BY_INDEX: &str = "set local enable_seqscan = off; set local enable_indexonlyscan = on";

impl Run<'_> {
    pub(crate) async fn storage(&mut self) -> Result<(), VerifyError> {
        match self.dialect {
            Dialect::Sqlite => self.sqlite_pages().await,
            Dialect::Postgres => self.postgres_indexes().await,
        }
    }

    async fn sqlite_pages(&mut self) -> Result<(), VerifyError> {
        let lines = match self.inspector.read(vec![SQLITE_CHECK.to_owned()]).await {
            Ok(found) => found.into_iter().flatten().flatten().flatten(),
            Err(InspectError::Unreachable(error)) => return Err(VerifyError::Unreachable(error)),
            // It gives up where the first page of a tree is damaged.
            Err(InspectError::Unreadable(cause)) => return self.sqlite_trees(cause).await,
        };
        let faults: Vec<String> = lines
            .flat_map(|line| line.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(is_fault)
            .collect();
        if faults.is_empty() {
            return Ok(());
        }
        let roots = self.read("storage", "sqlite_master", [SQLITE_ROOTS.to_owned()]).await?;
        let roots = roots.map(|[rows]| rows).unwrap_or_default();
        for fault in faults {
            let (table, part) = damaged_part(&fault, &roots);
            self.findings().note("storage", table, &part, "sound pages and indexes", fault);
        }
        Ok(())
    }

    /// Walks every table and index by itself.
    async fn sqlite_trees(&mut self, cause: String) -> Result<(), VerifyError> {
        let trees = self.inspector.read(vec![SQLITE_TREES.to_owned()]).await.unwrap_or_default();
        let mut is_found = false;
        for row in trees.into_iter().flatten() {
            let [Some(kind), Some(name), Some(table), definition] = row.as_slice() else { continue };
            // To count, SQLite would take the smallest index whatever it is told.
            let walk = match kind.as_str() {
                "table" => format!("select total(1) from {table} not indexed"),
                _ => {
                    let condition = definition.iter().find_map(|sql| Some(sql.rsplit_once(" where ")?.1));
                    let condition =
                        condition.map(|condition| format!("where {condition}")).unwrap_or_default();
                    format!("select total(1) from {table} indexed by {name} {condition}")
                }
            };
            if let Err(InspectError::Unreadable(cause)) = self.inspector.read(vec![walk]).await {
                is_found = true;
                self.findings().note("storage", table, &format!("{kind} {name}"), "sound pages", cause);
            }
        }
        if !is_found {
            self.findings().note("storage", "", &"", "sound pages and indexes", cause);
        }
        Ok(())
    }

    async fn postgres_indexes(&mut self) -> Result<(), VerifyError> {
        let amcheck = self.read("storage", "", [POSTGRES_AMCHECK.to_owned()]).await?;
        if amcheck.is_none_or(|[rows]| rows.is_empty()) {
            return self.postgres_counts().await;
        }
        let indexes = self.read("storage", "", [POSTGRES_INDEXES.to_owned()]).await?;
        for row in indexes.map(|[rows]| rows).unwrap_or_default() {
            let [Some(index), Some(table)] = row.as_slice() else { continue };
            let check = format!("select bt_index_check({}, true)", quoted(index));
            match self.inspector.read(vec![check]).await {
                Ok(_) => {}
                Err(InspectError::Unreachable(error)) => return Err(VerifyError::Unreachable(error)),
                Err(InspectError::Unreadable(cause)) if cause.contains("permission denied") => {
                    self.verification.skipped.insert("indexes: this user may not call amcheck".to_owned());
                    return self.postgres_counts().await;
                }
                Err(InspectError::Unreadable(cause)) => {
                    self.findings().note("storage", table, &index, "a sound index", cause);
                }
            }
        }
        Ok(())
    }

    /// Without `amcheck`: whether a table and its index have the same number of rows.
    async fn postgres_counts(&mut self) -> Result<(), VerifyError> {
        for table in TABLES {
            let count = format!("select count(*) from {table}");
            let statements = [BY_ITSELF.to_owned(), count.clone(), BY_INDEX.to_owned(), count];
            let Some([_, by_itself, _, by_index]) = self.read("storage", table, statements).await? else {
                continue;
            };
            let number = |rows: Vec<TextRow>| rows.into_iter().flatten().flatten().next().unwrap_or_default();
            let (by_itself, by_index) = (number(by_itself), number(by_index));
            if by_itself != by_index {
                let expected = format!("{by_itself} rows by an index");
                self.findings().note("storage", table, &"", expected, format!("{by_index} rows"));
            }
        }
        Ok(())
    }
}

/// SQLite says "ok", or begins with a line that names the database.
fn is_fault(line: &String) -> bool {
    line != "ok" && !line.starts_with("***")
}

/// The table that a fault of SQLite's own check is about, and the part of it, if the fault names the root of a tree or an
/// index.
fn damaged_part(fault: &str, roots: &[TextRow]) -> (String, String) {
    let word_after = |before: &str| fault.split(before).nth(1)?.split_whitespace().next();
    let root = word_after("Tree ");
    let index = word_after("index ").map(|name| format!("index {name}"));
    let named = roots.iter().find_map(|row| {
        let [Some(page), Some(name), Some(table)] = row.as_slice() else { return None };
        let fits = root == Some(page.as_str()) || index.as_deref() == Some(name.as_str());
        fits.then(|| (table.clone(), name.clone()))
    });
    named.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_sqlite_is_told_by_table_and_part() {
        let root = |page: &str, name: &str, table: &str| -> TextRow {
            [page, name, table].map(|text| Some(text.to_owned())).into()
        };
        let roots =
            [root("4", "table resources", "resources"), root("9", "index resources_by_kind", "resources")];
        for (fault, table, part) in [
            ("Tree 4 page 12 cell 3: invalid page number 99", "resources", "table resources"),
            ("row 7 missing from index resources_by_kind", "resources", "index resources_by_kind"),
            ("wrong # of entries in index resources_by_kind", "resources", "index resources_by_kind"),
            ("Freelist: size is 3 but should be 2", "", ""),
        ] {
            assert_eq!(damaged_part(fault, &roots), (table.to_owned(), part.to_owned()), "{fault}");
        }
    }
}
