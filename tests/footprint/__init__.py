"""The memory that a whole training needs."""
