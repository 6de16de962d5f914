"""Does what a cloud writes come back right?"""
