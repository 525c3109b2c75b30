//! Single stories that random histories meet too seldom, or cannot meet.
