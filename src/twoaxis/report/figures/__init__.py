"""The pictures of results, one file each: a drawing function, and its description in words."""
