"""What a whole training needs in memory."""
