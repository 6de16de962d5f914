"""How well are answers of a writing cloud restored on the device?"""
